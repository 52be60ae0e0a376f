//go:build !unix

package session

import (
	"io/fs"
	"os"
)

const nonblock = 0

func linkCount(fs.FileInfo) uint64 { return 1 }

func realPath(_ *os.File, fallback string) string { return fallback }
