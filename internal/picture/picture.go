// Package picture turns a picture that a stranger sent into one that a model may get: read by what its
// bytes are, of a size that is known before it is decoded, and without metadata.
package picture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // reads them
	"image/jpeg"
	"image/png"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // reads them
)

const (
	// MaxBytes limits a picture as it comes.
	MaxBytes  = 8 << 20
	maxPixels = 20_000_000 // limits it before it is decoded: a decoded pixel takes up to eight bytes
	// maxSide and minSide are of the picture that is made. Moderation services refuse smaller ones.
	maxSide, minSide = 2048, 64
	maxPNG           = 2 << 20 // from where a PNG is too large, so that it becomes a JPEG
	quality          = 85
)

// Reasons for which there is no picture.
var (
	// ErrFormat says that the bytes are of no format that is read.
	ErrFormat = errors.New("is no PNG, JPEG, WebP or GIF picture")
	// ErrTooLarge says that there are too many bytes or pixels.
	ErrTooLarge = errors.New("is too large a picture")
	// ErrDamaged says that it cannot be decoded.
	ErrDamaged = errors.New("is a damaged picture")
)

// Picture is a picture to show a model.
type Picture struct {
	Type string // of Data: image/png or image/jpeg
	Data []byte

	// Format, Width and Height are those of what was sent.
	Format        string // png, jpeg, webp or gif
	Width, Height int
}

// String describes what was sent, such as "image: 1024×768 png".
func (p Picture) String() string { return fmt.Sprintf("image: %d×%d %s", p.Width, p.Height, p.Format) }

// Is reports whether the bytes begin as a picture does, of any format.
func Is(content []byte) bool {
	return strings.HasPrefix(http.DetectContentType(content), "image/") || isHEIC(content)
}

// isHEIC reports whether the bytes begin as the pictures of phones do, which nothing here can decode.
func isHEIC(content []byte) bool {
	if len(content) < 12 || string(content[4:8]) != "ftyp" {
		return false
	}
	switch string(content[8:12]) {
	case "heic", "heix", "hevc", "mif1", "msf1", "avif":
		return true
	}
	return false
}

var formats = []string{"png", "jpeg", "gif", "webp"} // those that are read, as package image calls them

// Read makes a picture of what was sent, which is not changed. It turns photos as their EXIF says, makes
// large ones smaller and drops everything but the pixels. Its errors are [ErrFormat], [ErrTooLarge] and
// [ErrDamaged]. It takes up to 200 MB while it works, so limit how many do. It ends soon after ctx: a small
// file may have parts that each take long.
func Read(ctx context.Context, content []byte) (p Picture, err error) {
	defer func() {
		if recover() != nil { // a decoder panicked
			p, err = Picture{}, ErrDamaged
		}
	}()
	size, name, err := image.DecodeConfig(untilDone{ctx, bytes.NewReader(content)})
	switch {
	case !slices.Contains(formats, name):
		return Picture{}, ErrFormat
	case len(content) > MaxBytes:
		return Picture{}, ErrTooLarge
	case err != nil || size.Width < 1 || size.Height < 1:
		return Picture{}, ErrDamaged
	case size.Width > maxPixels/size.Height:
		return Picture{}, ErrTooLarge
	}
	decoded, _, err := image.Decode(untilDone{ctx, bytes.NewReader(content)}) // of a GIF the first frame
	if err != nil || decoded.Bounds().Empty() {
		return Picture{}, ErrDamaged
	}
	p = Picture{Format: name, Width: size.Width, Height: size.Height}
	drawn := fit(decoded)
	if name == "jpeg" {
		drawn = turned(drawn, orientation(content))
	}
	p.Type, p.Data, err = encode(drawn, name == "jpeg")
	return p, err
}

// untilDone is content that cannot be read any more when ctx has ended.
type untilDone struct {
	ctx     context.Context //nolint:containedctx // it lives as long as one call
	content *bytes.Reader
}

// Read gives little at a time, so that a decoder asks often.
func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.content.Read(p[:min(len(p), 1<<10)])
}

// fit draws a picture so that it is neither too large nor too small.
func fit(from image.Image) *image.NRGBA {
	b := from.Bounds()
	w, h := b.Dx(), b.Dy()
	if long := max(w, h); long > maxSide {
		w, h = max(w*maxSide/long, 1), max(h*maxSide/long, 1)
	}
	to := image.NewNRGBA(image.Rect(0, 0, max(w, minSide), max(h, minSide)))
	if to.Bounds().Dx() != w || to.Bounds().Dy() != h {
		draw.Draw(to, to.Bounds(), image.White, image.Point{}, draw.Src)
	}
	if area := image.Rect(0, 0, w, h); w == b.Dx() && h == b.Dy() {
		draw.Draw(to, area, from, b.Min, draw.Src)
	} else {
		draw.ApproxBiLinear.Scale(to, area, from, b, draw.Src, nil)
	}
	return to
}

// encode writes the pixels, and nothing else.
func encode(p *image.NRGBA, photo bool) (mediaType string, data []byte, err error) {
	var out bytes.Buffer
	if !photo {
		if err := png.Encode(&out, p); err != nil {
			return "", nil, ErrDamaged
		}
		if out.Len() <= maxPNG {
			return "image/png", out.Bytes(), nil
		}
		out.Reset()
	}
	opaque := image.NewRGBA(p.Bounds()) // JPEG has no transparency
	draw.Draw(opaque, opaque.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(opaque, opaque.Bounds(), p, image.Point{}, draw.Over)
	if err := jpeg.Encode(&out, opaque, &jpeg.Options{Quality: quality}); err != nil {
		return "", nil, ErrDamaged
	}
	return "image/jpeg", out.Bytes(), nil
}

// orientation is how the EXIF data of a JPEG says that it has to be turned: 1 to 8, 1 is not at all.
func orientation(content []byte) int {
	for at := 2; at+4 <= len(content) && content[at] == 0xff; {
		marker, size := content[at+1], int(content[at+2])<<8|int(content[at+3])
		end := at + 2 + size
		if marker == 0xda || size < 2 || end > len(content) { // the pixels begin
			break
		}
		if exif, ok := bytes.CutPrefix(content[at+4:end], []byte("Exif\x00\x00")); marker == 0xe1 && ok {
			return orientationIn(exif)
		}
		at = end
	}
	return 1
}

// orientationIn reads the tag 0x112 of the first directory of EXIF data.
func orientationIn(tiff []byte) int {
	if len(tiff) < 8 {
		return 1
	}
	little := tiff[0] == 'I'
	number := func(at, n int) (v int) {
		if at < 0 || at+n > len(tiff) {
			return 0
		}
		for i := range n {
			b := tiff[at+i]
			if little {
				b = tiff[at+n-1-i]
			}
			v = v<<8 | int(b)
		}
		return v
	}
	directory := number(4, 4)
	for i := range min(number(directory, 2), 200) {
		entry := directory + 2 + 12*i
		if number(entry, 2) != 0x112 {
			continue
		}
		if o := number(entry+8, 2); o >= 1 && o <= 8 {
			return o
		}
	}
	return 1
}

// turned returns the picture as people see it.
func turned(from *image.NRGBA, orientation int) *image.NRGBA {
	if orientation == 1 {
		return from
	}
	w, h := from.Bounds().Dx(), from.Bounds().Dy()
	size := image.Rect(0, 0, w, h)
	if orientation >= 5 {
		size = image.Rect(0, 0, h, w)
	}
	to := image.NewNRGBA(size)
	for y := range h {
		for x := range w {
			tx, ty := x, y
			switch orientation {
			case 2:
				tx = w - 1 - x
			case 3:
				tx, ty = w-1-x, h-1-y
			case 4:
				ty = h - 1 - y
			case 5:
				tx, ty = y, x
			case 6:
				tx, ty = h-1-y, x
			case 7:
				tx, ty = h-1-y, w-1-x
			case 8:
				tx, ty = y, w-1-x
			}
			to.SetNRGBA(tx, ty, from.NRGBAAt(x, y))
		}
	}
	return to
}
