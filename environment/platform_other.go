//go:build !linux

package environment

import (
	"errors"
	"syscall"
)

const namespaceRemedy = "environments are built on Linux; elsewhere name an image as the environment"

var errNoNamespaces = errors.ErrUnsupported

func dropCapabilities(string) error { return nil }

func namespaces(bool) *syscall.SysProcAttr { return nil }

func canBecomeNobody() bool { return false }
