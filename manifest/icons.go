package manifest

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
)

// iconRule is what the documentation asks of one icon.
type iconRule struct {
	key  string // under icons in the manifest
	side int    // pixels
	look func(image.Image) error
}

func iconRules() []iconRule {
	return []iconRule{
		{"color", 192, visible},
		{"outline", 32, whiteOnNothing},
		{"color32x32", 32, visible},
	}
}

// checkIcons checks the icon files that the manifest of c names.
func checkIcons(fsys fs.FS, c *checker) []Problem {
	var problems []Problem
	for _, rule := range iconRules() {
		name := c.text("/icons/" + rule.key)
		if name == "" || !plainName(name) {
			continue // the checks of the manifest have said so
		}
		if err := checkIcon(fsys, name, rule); err != nil {
			problems = append(problems, problem(name, "", "%v", err))
		}
	}
	return problems
}

// checkIcon looks at the size before it decodes, so that a picture of a
// billion pixels costs nothing.
func checkIcon(fsys fs.FS, name string, rule iconRule) error {
	data, err := readCapped(fsys, name, maxIconBytes)
	if err != nil {
		return err
	}
	head, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("is not a PNG: %w", err)
	}
	if head.Width != rule.side || head.Height != rule.side {
		return fmt.Errorf("has %d×%d pixels, the %s icon must have %d×%d", head.Width, head.Height, rule.key, rule.side, rule.side)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("is a damaged PNG: %w", err)
	}
	return rule.look(img)
}

// visible refuses a picture that shows nothing.
func visible(img image.Image) error {
	for _, px := range pixels(img) {
		if px.A > 0 {
			return nil
		}
	}
	return fmt.Errorf("is fully transparent")
}

// whiteOnNothing asks that every pixel be pure white or transparent, and that
// there be some of both. White of any opacity will do: that is what the soft
// edge of a white shape is made of.
func whiteOnNothing(img image.Image) error {
	white, clear := 0, 0
	for i, px := range pixels(img) {
		switch {
		case px.A == 0:
			clear++
		case px.R == 255 && px.G == 255 && px.B == 255:
			white++
		default:
			w := img.Bounds().Dx()
			return fmt.Errorf("has a pixel that is neither white nor transparent, at %d,%d: #%02X%02X%02X", i%w, i/w, px.R, px.G, px.B)
		}
	}
	if white == 0 || clear == 0 {
		return fmt.Errorf("must be white on a transparent background: %d white and %d transparent pixels", white, clear)
	}
	return nil
}

// pixels lists a picture's pixels row by row, colours not multiplied by alpha.
func pixels(img image.Image) []color.NRGBA {
	b := img.Bounds()
	out := make([]color.NRGBA, 0, b.Dx()*b.Dy())
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out = append(out, color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA))
		}
	}
	return out
}
