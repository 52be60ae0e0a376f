package hostmount

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	for target, want := range map[string][]string{
		"/data/x":        {"/data", "x"},
		"/mnt/a/b c/d.e": {"/mnt", "a", "b c", "d.e"},
		"/app/..x":       {"/app", "..x"},
	} {
		root, names, err := split(target)
		if diff := cmp.Diff(want, append([]string{root}, names...)); diff != "" || err != nil {
			t.Errorf("%s (%v, -want +got):\n%s", target, err, diff)
		}
	}
	for _, target := range []string{
		"", "/", "/data", "/data/", "/data/x/", "/data//x", "/data/./x", "/data/../x", "/data/x/..", "data/x", "/databank/x",
		"/work/x", "/tmp/x", "/etc/x", "/opt/biocage", "/proc/1", "/home/x", "/data/a\x00", "/data/a\nb",
	} {
		if _, _, err := split(target); err == nil {
			t.Errorf("%q was taken", target)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error has more than one line: %v", target, err)
		}
	}
}
