package remains

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// ownerLabel is on every container of a server; its value begins with the
// server's process number.
const ownerLabel = "io.biocage.owner"

// containers lists the ids of the containers that the server made.
func containers(ctx context.Context, opts Options) ([]string, error) {
	cmd := exec.CommandContext(ctx, "docker", "ps", "--all", "--no-trunc",
		"--filter", "label="+ownerLabel, "--format", `{{.ID}} {{.Label "`+ownerLabel+`"}}`)
	cmd.Env = opts.Env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list containers (%s): %w", strings.TrimSpace(stderr.String()), err)
	}
	return ownedBy(string(out), opts.PID), nil
}

// ownedBy picks the ids from lines "ID PID:START:…".
func ownedBy(listing string, pid int) []string {
	var ids []string
	for line := range strings.Lines(listing) {
		id, owner, found := strings.Cut(strings.TrimSpace(line), " ")
		if found && strings.HasPrefix(owner, strconv.Itoa(pid)+":") {
			ids = append(ids, id)
		}
	}
	return ids
}
