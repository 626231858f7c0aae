package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

const (
	// protocol is raised when a message changes in a way that an older agent would misread.
	protocol = 1
	// Nobody listens: the call fails within this time (most often at once).
	connectWithin = 900 * time.Millisecond
	// An agent that lives says that it took the call before it looks at it; on a node that is short of CPU that word
	// may take its time, and giving up on it would only add a retry.
	acceptWithin = 5 * time.Second
	// The agent bounds a call at 20 s after its queue; this is only the net under an agent that died while working.
	answerWithin = 100 * time.Second
)

// request is the one line that is sent for a call.
type request struct {
	Protocol    int             `json:"protocol"`
	Verb        string          `json:"verb"`
	ContainerID string          `json:"containerID"`
	Netns       string          `json:"netns"`
	IfName      string          `json:"ifName"`
	Args        string          `json:"args"`
	Config      json.RawMessage `json:"config"`
}

// reply is what comes back: first a line with Accepted, then one with Result, Error or neither.
type reply struct {
	Accepted bool            `json:"accepted"`
	Result   json.RawMessage `json:"result"`
	Error    *types.Error    `json:"error"`
}

func message(verb string, args *skel.CmdArgs) request {
	return request{
		Protocol: protocol, Verb: verb, ContainerID: args.ContainerID, Netns: args.Netns, IfName: args.IfName,
		Args: args.Args, Config: args.StdinData,
	}
}

// call sends one request and waits for its answer. An error means that the agent gave none.
func call(socket string, asked request) (*reply, error) {
	line, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	connection, err := net.DialTimeout("unix", socket, connectWithin)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(started.Add(acceptWithin)); err != nil {
		return nil, err
	}
	if _, err := connection.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	lines := json.NewDecoder(bufio.NewReader(connection))
	var answer reply
	if err := lines.Decode(&answer); err != nil {
		return nil, fmt.Errorf("no sign of life within %s: %w", acceptWithin, err)
	}
	if !answer.Accepted {
		if answer.Error == nil {
			return nil, errors.New("the answer is not one of a netclaim node agent")
		}
		return &answer, nil
	}
	if err := connection.SetDeadline(started.Add(answerWithin)); err != nil {
		return nil, err
	}
	answer = reply{}
	if err := lines.Decode(&answer); err != nil {
		return nil, fmt.Errorf("the node agent took the call but did not finish it: %w", err)
	}
	return &answer, nil
}
