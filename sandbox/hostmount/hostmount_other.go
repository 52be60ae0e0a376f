//go:build !linux

package hostmount

import (
	"context"
	"fmt"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Supported tells why Attach cannot work in this process, or nil.
func Supported() error {
	return fmt.Errorf("%w: attaching host files to a running sandbox needs Linux", sandbox.ErrUnsupported)
}

// Attach makes req.Source appear at req.Target inside the sandbox.
func Attach(context.Context, Request) (Result, error) { return Result{}, Supported() }
