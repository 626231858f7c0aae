package main

import (
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
)

const (
	defaultSocket = "/run/netclaim/agent.sock"
	defaultSpool  = "/var/lib/netclaim/pending"
)

// places are where the agent listens and where a DEL is kept while it does not.
type places struct {
	socket   string
	spoolDir string
}

// placesOf reads both from the environment, else from the configuration, else takes the defaults. A configuration
// may come from a tenant's NetworkAttachmentDefinition, so it may only choose among the product's own folders.
func placesOf(config []byte) places {
	var named map[string]json.RawMessage
	_ = json.Unmarshal(config, &named)
	return places{
		socket:   choose("NETCLAIM_CNI_SOCKET", named["socket"], "/run/netclaim/", defaultSocket),
		spoolDir: choose("NETCLAIM_CNI_SPOOL", named["spoolDir"], "/var/lib/netclaim/", defaultSpool),
	}
}

func choose(variable string, configured json.RawMessage, below, otherwise string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	var value string
	if json.Unmarshal(configured, &value) == nil && strings.HasPrefix(filepath.Clean(value), below) {
		return filepath.Clean(value)
	}
	return otherwise
}

// kept is a DEL that the agent has yet to do; At (nanoseconds since 1970) keeps it from undoing a later ADD.
type kept struct {
	Protocol    int    `json:"protocol"`
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
	At          int64  `json:"at"`
}

// spool writes the call so that the agent sees all of it or nothing of it, also after a power cut.
func spool(dir string, args *skel.CmdArgs) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(kept{
		Protocol: protocol, ContainerID: args.ContainerID, IfName: args.IfName, At: time.Now().UnixNano(),
	})
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(append(text, '\n')); err != nil {
		file.Close()
		return err
	}
	if err := file.Sync(); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	// Not of crypto: its packages test themselves at every start of the program, and a name needs no secrecy.
	digest := fnv.New128a()
	_, _ = digest.Write([]byte(args.ContainerID + "\x00" + args.IfName))
	if err := os.Rename(file.Name(), filepath.Join(dir, hex.EncodeToString(digest.Sum(nil))+".json")); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
