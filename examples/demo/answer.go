package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// resultKey is where every answer carries its result object.
const resultKey = "biocage/result"

// An answer is what a host takes from a tool's result.
type answer struct {
	text   string
	images []picture
	links  []mcp.ResourceLink
	failed bool
	result result
	took   time.Duration
}

type picture struct {
	mime          string
	data          []byte
	width, height int
}

// A result is the part of the result objects that the story looks at.
type result struct {
	Success   bool    `json:"success"`
	Status    string  `json:"status"`
	Stdout    string  `json:"stdout"`
	ExitCode  int     `json:"exit_code"`
	Result    *string `json:"result"`
	Error     *fault  `json:"error"`
	Images    int     `json:"images"`
	Restarted bool    `json:"restarted"`
	Session   string  `json:"session"`
	Files     []file  `json:"files"`

	Content     string `json:"content"`      // file_read
	Size        int64  `json:"size"`         // file_read
	SandboxPath string `json:"sandbox_path"` // file_expose
	Mode        string `json:"mode"`         // file_expose
	Engine      string `json:"engine"`       // session_info
	SandboxID   string `json:"sandbox_id"`   // session_info, session_reset
	Variables   []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"variables"` // session_info
}

type file struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

type fault struct {
	Kind    string `json:"kind"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Line    int    `json:"line"`
	Hint    string `json:"hint"`
}

// decode takes an answer apart: one text block, then images, then links.
func decode(res *mcp.CallToolResult) (answer, error) {
	a := answer{failed: res.IsError}
	for i, block := range res.Content {
		switch block := block.(type) {
		case mcp.TextContent:
			if i > 0 {
				return a, errors.New("the answer has a second text block")
			}
			a.text = block.Text
		case mcp.ImageContent:
			pic, err := decodePicture(block)
			if err != nil {
				return a, err
			}
			a.images = append(a.images, pic)
		case mcp.ResourceLink:
			a.links = append(a.links, block)
		default:
			return a, fmt.Errorf("the answer holds a block of a kind that no host expects: %T", block)
		}
	}
	if a.text == "" {
		return a, errors.New("the answer has no text")
	}
	return a, decodeResult(res, &a.result)
}

func decodeResult(res *mcp.CallToolResult, into *result) error {
	if res.Meta == nil || res.Meta.AdditionalFields[resultKey] == nil {
		return fmt.Errorf("the answer carries no result object (_meta %q)", resultKey)
	}
	raw, err := json.Marshal(res.Meta.AdditionalFields[resultKey])
	if err != nil {
		return fmt.Errorf("unreadable result object: %w", err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("unreadable result object: %w", err)
	}
	return nil
}

func decodePicture(block mcp.ImageContent) (picture, error) {
	data, err := base64.StdEncoding.DecodeString(block.Data)
	if err != nil {
		return picture{}, fmt.Errorf("an image is not base64: %w", err)
	}
	pic := picture{mime: block.MIMEType, data: data}
	if pic.mime != "image/png" {
		return pic, nil
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return picture{}, fmt.Errorf("an image is not a PNG as it says: %w", err)
	}
	pic.width, pic.height = config.Width, config.Height
	return pic, nil
}
