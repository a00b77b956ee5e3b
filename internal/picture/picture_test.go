package picture_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/picture"
)

// halves is a picture whose left half is red and whose right half is blue.
func halves(w, h int) *image.RGBA {
	p := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.RGBA{255, 0, 0, 255}
			if x >= w/2 {
				c = color.RGBA{0, 0, 255, 255}
			}
			p.Set(x, y, c)
		}
	}
	return p
}

func pngOf(t *testing.T, w, h int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, halves(w, h)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func jpegOf(t *testing.T, w, h int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := jpeg.Encode(&out, halves(w, h), nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// withEXIF puts the orientation and a secret into a JPEG.
func withEXIF(content []byte, orientation uint16) []byte {
	tiff := []byte("II*\x00\x08\x00\x00\x00\x01\x00")
	tiff = binary.LittleEndian.AppendUint16(tiff, 0x112)
	tiff = append(tiff, 3, 0, 1, 0, 0, 0)
	tiff = binary.LittleEndian.AppendUint16(tiff, orientation)
	tiff = append(tiff, "\x00\x00\x00\x00\x00\x00GPS of my home"...)
	segment := append([]byte("Exif\x00\x00"), tiff...)
	head := []byte{0xff, 0xd8, 0xff, 0xe1}
	head = binary.BigEndian.AppendUint16(head, uint16(len(segment)+2)) //nolint:gosec // it is short
	return append(append(head, segment...), content[2:]...)
}

// pngHead is the beginning of a PNG of that size.
func pngHead(w, h uint32) []byte {
	head := []byte("IHDR")
	head = binary.BigEndian.AppendUint32(head, w)
	head = binary.BigEndian.AppendUint32(head, h)
	head = append(head, 8, 6, 0, 0, 0)
	out := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d")
	return binary.BigEndian.AppendUint32(append(out, head...), crc32.ChecksumIEEE(head))
}

// webpOf is a WebP of one pixel.
func webpOf(t *testing.T) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func decoded(t *testing.T, p picture.Picture) image.Image {
	t.Helper()
	made, format, err := image.Decode(bytes.NewReader(p.Data))
	if err != nil || "image/"+format != p.Type {
		t.Fatalf("%s, %v, but it says %s", format, err, p.Type)
	}
	return made
}

func TestRead(t *testing.T) {
	t.Parallel()
	var animated bytes.Buffer
	frame := image.NewPaletted(image.Rect(0, 0, 100, 80), color.Palette{color.White, color.RGBA{255, 0, 0, 255}})
	if err := gif.EncodeAll(&animated, &gif.GIF{Image: []*image.Paletted{frame, frame}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		content []byte
		about   string
		kind    string
		w, h    int
	}{
		{"png", pngOf(t, 200, 100), "image: 200×100 png", "image/png", 200, 100},
		{"jpeg", jpegOf(t, 200, 100), "image: 200×100 jpeg", "image/jpeg", 200, 100},
		{"gif", animated.Bytes(), "image: 100×80 gif", "image/png", 100, 80},
		{"webp, tiny", webpOf(t), "image: 1×1 webp", "image/png", 64, 64},
		{"large", pngOf(t, 4096, 1024), "image: 4096×1024 png", "image/png", 2048, 512},
		{"a line", pngOf(t, 5000, 1), "image: 5000×1 png", "image/png", 2048, 64},
		{"turned", withEXIF(jpegOf(t, 200, 100), 6), "image: 200×100 jpeg", "image/jpeg", 100, 200},
		{"turned by nonsense", withEXIF(jpegOf(t, 200, 100), 99), "image: 200×100 jpeg", "image/jpeg", 200, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := picture.Read(t.Context(), tt.content)
			if err != nil {
				t.Fatal(err)
			}
			if got := decoded(t, p).Bounds(); p.String() != tt.about || p.Type != tt.kind || got.Dx() != tt.w || got.Dy() != tt.h {
				t.Errorf("%s, %s, %v", p, p.Type, got)
			}
			if strings.Contains(string(p.Data), "GPS") || strings.Contains(string(p.Data), "Exif") {
				t.Error("it has metadata")
			}
		})
	}
}

// TestTurned pictures have their left half where people see it.
func TestTurned(t *testing.T) {
	t.Parallel()
	for orientation, red := range map[uint16]image.Point{
		1: {10, 50}, 2: {190, 50}, 3: {190, 50}, 4: {10, 50}, 5: {50, 10}, 6: {50, 10}, 7: {50, 190}, 8: {50, 190},
	} {
		p, err := picture.Read(t.Context(), withEXIF(jpegOf(t, 200, 100), orientation))
		if err != nil {
			t.Fatal(err)
		}
		if r, _, b, _ := decoded(t, p).At(red.X, red.Y).RGBA(); r < b {
			t.Errorf("orientation %d: %v is not red", orientation, red)
		}
	}
}

// TestWhatIsNoPicture is refused, large ones before they are decoded.
func TestWhatIsNoPicture(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		content string
		want    error
	}{
		{"HTML", "<html><body>hello", picture.ErrFormat},
		{"nothing", "", picture.ErrFormat},
		{"HEIC", "\x00\x00\x00\x18ftypheic\x00\x00\x00\x00", picture.ErrFormat},
		{"SVG", `<svg xmlns="http://www.w3.org/2000/svg"/>`, picture.ErrFormat},
		{"400 megapixels", string(pngHead(20_000, 20_000)), picture.ErrTooLarge},
		{"60,000 × 60,000", string(pngHead(60_000, 60_000)), picture.ErrTooLarge},
		{"cut off", string(pngOf(t, 200, 100)[:60]), picture.ErrDamaged},
		{"a head alone", string(pngHead(100, 100)), picture.ErrDamaged},
		{"too many bytes", string(pngOf(t, 10, 10)) + strings.Repeat("x", picture.MaxBytes), picture.ErrTooLarge},
	} {
		if p, err := picture.Read(t.Context(), []byte(tt.content)); !errors.Is(err, tt.want) || p.Data != nil {
			t.Errorf("%s: %v, %v", tt.name, p, err)
		}
	}
	if !picture.Is([]byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00")) || !picture.Is(pngHead(1, 1)) || picture.Is([]byte("hello")) {
		t.Error("Is is wrong")
	}
}

// FuzzRead: whatever comes, there is a picture of a size that is allowed, or one of the errors.
func FuzzRead(f *testing.F) {
	f.Add(pngHead(3, 3))
	f.Add([]byte("GIF89a\x01\x00\x01\x00"))
	f.Add([]byte("RIFF\x00\x00\x00\x00WEBPVP8 "))
	f.Add([]byte{0xff, 0xd8, 0xff, 0xe1, 0, 9, 'E', 'x', 'i', 'f', 0, 0, 'I'})
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := picture.Read(t.Context(), content)
		switch {
		case err == nil && len(p.Data) == 0, err != nil && p.Data != nil:
			t.Errorf("%v with %d bytes", err, len(p.Data))
		case err != nil && !errors.Is(err, picture.ErrFormat) && !errors.Is(err, picture.ErrTooLarge) && !errors.Is(err, picture.ErrDamaged):
			t.Error(err)
		}
	})
}

// TestEndsWithItsContext: a picture is not read any further when its context has ended.
func TestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p, err := picture.Read(ctx, jpegOf(t, 200, 100)); !errors.Is(err, picture.ErrFormat) && !errors.Is(err, picture.ErrDamaged) || p.Data != nil {
		t.Error(err)
	}
}
