package tools

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/session"
)

type decodeInput struct {
	Code  string  `json:"code" jsonschema:"required"`
	Limit float64 `json:"limit_seconds,omitempty" jsonschema:"minimum=0.1,maximum=600"`
	Count int64   `json:"count,omitempty" jsonschema:"minimum=0"`
	On    bool    `json:"on,omitempty"`
	Mode  string  `json:"mode,omitempty" jsonschema:"enum=ro,enum=rw"`
	Path  string  `json:"path,omitempty" jsonschema:"minLength=1"`
	target
}

func TestDecode(t *testing.T) {
	tests := []struct {
		name, raw string
		want      decodeInput
	}{
		{
			"all", `{"code":"x","limit_seconds":30,"count":2,"on":true,"mode":"rw","path":"p","session":"s"}`,
			decodeInput{Code: "x", Limit: 30, Count: 2, On: true, Mode: "rw", Path: "p", target: target{Session: "s"}},
		},
		{"numbers as text", `{"code":"x","limit_seconds":"30","count":"7"}`, decodeInput{Code: "x", Limit: 30, Count: 7}},
		{"truth as text", `{"code":"x","on":"True"}`, decodeInput{Code: "x", On: true}},
		{"a whole float", `{"code":"x","count":3.0}`, decodeInput{Code: "x", Count: 3}},
		{"null is absent", `{"code":"x","limit_seconds":null,"session":null}`, decodeInput{Code: "x"}},
		{"empty code", `{"code":""}`, decodeInput{}},
		{"escapes", `{"code":"\ud83d\ude00\u0000\n"}`, decodeInput{Code: "😀\x00\n"}},
		{"a lone surrogate", `{"code":"\ud800"}`, decodeInput{Code: "\ufffd"}},
	}
	schema := inputSchema[decodeInput](nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got decodeInput
			if err := decode("tool", schema, json.RawMessage(tt.raw), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(decodeInput{})); diff != "" {
				t.Errorf("decode (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct{ name, raw, want string }{
		{"nothing", `null`, "tool needs the argument code."},
		{"missing", `{"on":true}`, "tool needs the argument code."},
		{"null where needed", `{"code":null}`, "code must be text."},
		{"a number as code", `{"code":1}`, "code must be text."},
		{"a list as code", `{"code":["print(1)"]}`, "code must be text."},
		{"unknown, near", `{"code":"x","limt_seconds":3}`, `tool has no argument "limt_seconds"; did you mean limit_seconds? It takes: code, limit_seconds, count, on, mode, path, session.`},
		{"unknown, a part", `{"code":"x","limit":3}`, `did you mean limit_seconds?`},
		{"unknown, far", `{"code":"x","zzzzzz":{"a":[[[[]]]]}}`, `tool has no argument "zzzzzz". It takes: code,`},
		{"unknown, long", `{"code":"x","` + strings.Repeat("y", 5000) + `":1}`, `…. It takes: code,`},
		{"not a number", `{"code":"x","limit_seconds":"1s; rm"}`, "limit_seconds must be a number between 0.1 and 600."},
		{"below the range", `{"code":"x","limit_seconds":-1}`, "limit_seconds must be a number between 0.1 and 600."},
		{"far above the range", `{"code":"x","limit_seconds":1e308}`, "between 0.1 and 600"},
		{"not finite", `{"code":"x","limit_seconds":"NaN"}`, "between 0.1 and 600"},
		{"infinite", `{"code":"x","limit_seconds":"inf"}`, "between 0.1 and 600"},
		{"an object as number", `{"code":"x","count":{}}`, "count must be a whole number of at least 0."},
		{"a broken number", `{"code":"x","count":1.5}`, "count must be a whole number of at least 0."},
		{"a huge whole number", `{"code":"x","count":1e300}`, "count must be a whole number of at least 0 and at most 9007199254740992."},
		{"no truth", `{"code":"x","on":1}`, "on must be true or false."},
		{"not in the list", `{"code":"x","mode":"rx"}`, "mode must be ro or rw."},
		{"blank path", `{"code":"x","path":"  "}`, "path must be text that is not empty."},
		{"a list of arguments", `["x"]`, "tool takes its arguments as a JSON object."},
		{"text as arguments", `"x"`, "tool takes its arguments as a JSON object."},
	}
	schema := inputSchema[decodeInput](nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in decodeInput
			err := decode("tool", schema, json.RawMessage(tt.raw), &in)
			var argument *session.ArgumentError
			if !errors.As(err, &argument) {
				t.Fatalf("decode: %v, want an ArgumentError", err)
			}
			if !strings.Contains(argument.Message, tt.want) {
				t.Errorf("got  %s\nwant %s", argument.Message, tt.want)
			}
			if len(argument.Message) > 400 {
				t.Errorf("the message has %d bytes", len(argument.Message))
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"code":"x","limit_seconds":"30","on":"true"}`)
	f.Add(`{"code":1,"x":null}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) {
			return // the transport parsed it
		}
		var in decodeInput
		err := decode("tool", inputSchema[decodeInput](nil), json.RawMessage(raw), &in)
		var argument *session.ArgumentError
		if err != nil && !errors.As(err, &argument) {
			t.Fatalf("decode(%q): %v, want an ArgumentError", raw, err)
		}
		if err == nil && (in.Limit < 0 || in.Limit > 600 || in.Count < 0) {
			t.Fatalf("decode(%q) let %+v through", raw, in)
		}
	})
}
