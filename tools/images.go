package tools

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"

	"golang.org/x/image/draw"

	"github.com/biocypher/biocage-mcp/session"
)

const (
	maxImages    = 10
	maxImageSide = 4096
	imageBlock   = 200 // bytes of an image block beside its data
)

// A picture is an image that may travel.
type picture struct {
	mime string
	data []byte
}

// isImage tells whether a display claims to be an image that may travel.
func isImage(mime string) bool { return mime == "image/png" || mime == "image/jpeg" }

// fitImages takes the images among the displays that fit into budget bytes,
// scaled down where they must be, and says for the others why they do not
// travel. What does not fit uses up nothing, so later images have its share.
func fitImages(displays []session.Display, budget int) (fitted []picture, notes []string) {
	var images []session.Display
	for _, d := range displays {
		if isImage(d.MIME) {
			images = append(images, d)
		}
	}
	for i, d := range images {
		if len(fitted) == maxImages {
			notes = append(notes, fmt.Sprintf("%d more images were left out: at most %d travel in an answer.", len(images)-i, maxImages))
			break
		}
		left := min(len(images)-i, maxImages-len(fitted))
		p, err := fitImage(d, budget/left-imageBlock)
		if err != nil {
			notes = append(notes, fmt.Sprintf("Image %d was left out: %v.", i+1, err))
			continue
		}
		fitted = append(fitted, p)
		budget -= base64.StdEncoding.EncodedLen(len(p.data)) + imageBlock
	}
	return fitted, notes
}

// fitImage checks an image and scales it down until its base64 form has at
// most budget bytes. Nothing is decoded before its dimensions are known.
func fitImage(d session.Display, budget int) (picture, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(d.Data))
	if err != nil || "image/"+format != d.MIME {
		return picture{}, fmt.Errorf("its data are not %s", d.MIME)
	}
	if config.Width > maxImageSide || config.Height > maxImageSide || config.Width < 1 || config.Height < 1 {
		return picture{}, fmt.Errorf("it has %d x %d pixels, more than %d x %d; make it smaller or save it as a file",
			config.Width, config.Height, maxImageSide, maxImageSide)
	}
	size := base64.StdEncoding.EncodedLen(len(d.Data))
	if size <= budget {
		return picture{mime: d.MIME, data: d.Data}, nil
	}
	source, _, err := image.Decode(bytes.NewReader(d.Data))
	if err != nil {
		return picture{}, fmt.Errorf("its data are not %s", d.MIME)
	}
	scale := math.Sqrt(float64(budget)/float64(size)) * 0.95
	for range 4 {
		p, err := shrink(source, scale, budget)
		if err != nil || p.data != nil {
			return p, err
		}
		scale *= 0.6
	}
	return picture{}, errors.New("it is too large for the answer; save it as a file")
}

// shrink scales and encodes: PNG where that is small enough, else JPEG. An
// empty picture means that neither is.
func shrink(source image.Image, scale float64, budget int) (picture, error) {
	b := source.Bounds()
	target := image.Rect(0, 0, max(int(float64(b.Dx())*scale), 1), max(int(float64(b.Dy())*scale), 1))
	scaled := image.NewRGBA(target)
	draw.Draw(scaled, target, image.White, image.Point{}, draw.Src) // JPEG knows no transparency
	draw.ApproxBiLinear.Scale(scaled, target, source, b, draw.Over, nil)
	var out bytes.Buffer
	if err := png.Encode(&out, scaled); err != nil {
		return picture{}, fmt.Errorf("it could not be scaled down: %w", err)
	}
	if base64.StdEncoding.EncodedLen(out.Len()) <= budget {
		return picture{mime: "image/png", data: out.Bytes()}, nil
	}
	out.Reset()
	if err := jpeg.Encode(&out, scaled, &jpeg.Options{Quality: 80}); err != nil {
		return picture{}, fmt.Errorf("it could not be scaled down: %w", err)
	}
	if base64.StdEncoding.EncodedLen(out.Len()) <= budget {
		return picture{mime: "image/jpeg", data: out.Bytes()}, nil
	}
	return picture{}, nil
}
