// Command netclaim-cni is what a container runtime executes for a netclaim interface. It hands the call to the
// node agent's unix socket as one JSON message and prints the answer. It holds no credentials and does no kernel work.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// The CNI specification reserves 50 for a plugin that cannot serve ADD at the moment.
const errPluginNotAvailable = 50

func main() {
	if os.Getenv("CNI_COMMAND") == "DEL" {
		// skel would fail a DEL whose namespace is the caller's own; the agent deletes what its journal says and
		// looks at no namespace path, so such a DEL has nothing to refuse.
		_ = os.Setenv("CNI_NETNS_OVERRIDE", "1")
	}
	closeTerminalStdin()
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add:    add,
		Del:    del,
		Check:  func(args *skel.CmdArgs) error { return require("CHECK", args, types.ErrTryAgainLater) },
		GC:     func(args *skel.CmdArgs) error { return require("GC", args, types.ErrTryAgainLater) },
		Status: func(args *skel.CmdArgs) error { return require("STATUS", args, errPluginNotAvailable) },
	}, version.PluginSupports("0.4.0", "1.0.0", "1.1.0"), "netclaim-cni: hands CNI calls to the netclaim node agent")
}

// closeTerminalStdin keeps a call typed at a terminal from waiting for ever for a configuration.
func closeTerminalStdin() {
	info, err := os.Stdin.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice != 0 {
		if null, err := os.Open(os.DevNull); err == nil {
			os.Stdin = null
		}
	}
}

func add(args *skel.CmdArgs) error {
	place := placesOf(args.StdinData)
	answer, err := call(place.socket, message("ADD", args))
	if err != nil {
		return unreachable(types.ErrTryAgainLater, place, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	var asked types.PluginConf
	if err := json.Unmarshal(args.StdinData, &asked); err != nil {
		return types.NewError(types.ErrDecodingFailure, "the network configuration cannot be read", err.Error())
	}
	result, err := types100.NewResult(answer.Result)
	if err != nil {
		return types.NewError(types.ErrInternal, "the node agent answered ADD without a result", err.Error())
	}
	return types.PrintResult(result, asked.CNIVersion)
}

// del always succeeds when the agent is away: the call is kept in the spool, which the agent plays back.
func del(args *skel.CmdArgs) error {
	place := placesOf(args.StdinData)
	answer, err := call(place.socket, message("DEL", args))
	if err == nil {
		if answer.Error != nil {
			return answer.Error
		}
		return nil
	}
	if spoolErr := spool(place.spoolDir, args); spoolErr != nil {
		return types.NewError(types.ErrTryAgainLater,
			fmt.Sprintf("the node agent does not answer on %s and the call cannot be kept in %s", place.socket, place.spoolDir),
			fmt.Sprintf("%v; %v", err, spoolErr))
	}
	return nil
}

func require(verb string, args *skel.CmdArgs, code uint) error {
	place := placesOf(args.StdinData)
	answer, err := call(place.socket, message(verb, args))
	if err != nil {
		return unreachable(code, place, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

func unreachable(code uint, place places, err error) error {
	return types.NewError(code, "the netclaim node agent does not answer on "+place.socket,
		fmt.Sprintf("%v; look at the node-agent Pod of this node (kubectl -n netclaim-system get pods -o wide) and its log", err))
}
