package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// Each check must accept what is right and find what is wrong.
func TestChecks(t *testing.T) {
	dir := t.TempDir()
	four, good := "4", result{Success: true, Status: "done"}
	keyError := result{Status: "done", ExitCode: 1, Error: &fault{Kind: "exception", Type: "KeyError", Hint: "Try x."}}
	with := func(r result, change func(*result)) result { change(&r); return r }
	figure := picture{mime: "image/png", data: []byte("png"), width: 700, height: 450}
	failed := func(r result, text string) answer { return answer{failed: true, text: text, result: r} }
	plain := func(r result) answer { return answer{result: r} }

	tests := map[string]struct {
		check check
		right answer
		wrong []answer
	}{
		"fine": {fine, answer{}, []answer{{failed: true}}},
		"ran": {ran, plain(good), []answer{
			plain(result{}), plain(keyError), failed(good, ""),
			plain(with(good, func(r *result) { r.Restarted = true })),
			plain(with(good, func(r *result) { r.Status = "running" })),
			plain(with(good, func(r *result) { r.ExitCode = 1 })),
		}},
		"value": {value("4"), plain(result{Result: &four}), []answer{{}, plain(result{Result: &keyError.Status})}},
		"tells": {tells("a", "b"), answer{text: "b a"}, []answer{{text: "a"}, {}}},
		"fails": {fails("exception", 1, "OSError", "KeyError"), failed(keyError, "KeyError. Try x."), []answer{
			plain(good), plain(keyError), failed(keyError, "KeyError"),
			failed(with(keyError, func(r *result) { r.ExitCode = 2 }), "Try x."),
			failed(with(keyError, func(r *result) { r.Restarted = true }), "Try x."),
			failed(with(keyError, func(r *result) { r.Error = &fault{Kind: "exception", Type: "KeyError"} }), "Try x."),
			failed(with(keyError, func(r *result) { r.Error = &fault{Kind: "exception", Type: "ValueError", Hint: "Try x."} }), "Try x."),
			failed(with(keyError, func(r *result) { r.Error = &fault{Kind: "died", Type: "KeyError", Hint: "Try x."} }), "Try x."),
		}},
		"refused": {refused("/etc"), failed(result{}, "/etc is out"), []answer{{text: "/etc"}, failed(result{}, "no")}},
		"exposed": {exposed("/data/x", "ro"), plain(result{SandboxPath: "/data/x", Mode: "ro"}), []answer{
			{}, plain(result{SandboxPath: "/data/x", Mode: "rw"}),
		}},
		"hands": {
			hands("a.csv"),
			answer{result: result{Files: []file{{"a.csv", 3}}}, links: []mcp.ResourceLink{{URI: "x://s/a.csv"}}},
			[]answer{
				{},
				{result: result{Files: []file{{"a.csv", 3}}}},
				{result: result{Files: []file{{"a.csv", 0}}}, links: []mcp.ResourceLink{{URI: "x://s/a.csv"}}},
			},
		},
		"saveImage": {
			saveImage(dir, "a.png"),
			answer{images: []picture{figure}, result: result{Images: 1}},
			[]answer{
				{},
				{images: []picture{figure}},
				{images: []picture{figure, figure}, result: result{Images: 2}},
				{images: []picture{{mime: "image/png", width: 10, height: 10}}, result: result{Images: 1}},
			},
		},
		"saveContent": {
			saveContent(dir, "a.csv", "x,y"),
			plain(result{Content: "x,y\n", Size: 4}),
			[]answer{plain(result{Content: "x,y\n", Size: 5}), plain(result{Content: "y,x\n", Size: 4})},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tc.check(tc.right); err != nil {
				t.Errorf("refuses what is right: %v", err)
			}
			for i, wrong := range tc.wrong {
				if tc.check(wrong) == nil {
					t.Errorf("accepts wrong answer %d", i)
				}
			}
		})
	}
	for name, want := range map[string]string{"a.png": "png", "a.csv": "x,y\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, error %v", name, got, err)
		}
	}
}
