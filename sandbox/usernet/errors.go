//go:build linux

package usernet

import "errors"

var (
	// ErrRefused means that the policy does not let a sandbox reach the address.
	ErrRefused = errors.New("a sandbox may not reach this address")
	// ErrUnreachable means that this host itself has no way to the address.
	ErrUnreachable = errors.New("the host has no route to this address")
)
