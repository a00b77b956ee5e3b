// Command drawicons draws the two icons of the app package: planbot's mark, a
// speech bubble that holds a list whose items get done. Run it with go generate
// in the package manifest; it needs nothing but the standard library.
package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
)

// samples is how many points per pixel and axis decide how much of a pixel a
// shape covers.
const samples = 16

var (
	teal  = color.NRGBA{R: 0x0B, G: 0x6E, B: 0x75, A: 0xFF} // also the accent colour of the manifest
	paper = color.NRGBA{R: 0xFF, G: 0xFF, B: 0xFF, A: 0xFF}
	amber = color.NRGBA{R: 0xF2, G: 0x9F, B: 0x05, A: 0xFF}
	faint = color.NRGBA{R: 0x9F, G: 0xC9, B: 0xCB, A: 0xFF}
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: drawicons FOLDER")
		os.Exit(2)
	}
	for name, img := range map[string]image.Image{"color.png": colorIcon(), "outline.png": outlineIcon()} {
		if err := write(filepath.Join(os.Args[1], name), img); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// write encodes img as small as the standard library can and stores it.
func write(path string, img image.Image) error {
	var buf bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestCompression}
	if err := enc.Encode(&buf, img); err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return os.WriteFile(path, buf.Bytes(), 0o644)
}

// colorIcon is the mark on a solid square. The symbol keeps to the central
// 96 of 192 pixels, because Teams crops the rest to a circle or a hexagon.
func colorIcon() image.Image {
	c := newCanvas(192)
	c.paint(teal, func(point) bool { return true })
	c.paint(paper, anyOf(
		roundRect(point{48, 48}, point{144, 128}, 16),
		polygon(point{64, 122}, point{64, 144}, point{90, 122}),
	))
	c.paint(amber, stroke(4, point{62, 73}, point{68.5, 79.5}, point{80, 66}))
	c.paint(teal, stroke(4, point{92, 73}, point{128, 73}))
	c.paint(amber, stroke(4, point{62, 101}, point{68.5, 107.5}, point{80, 94}))
	c.paint(faint, stroke(4, point{92, 101}, point{116, 101}))
	return c.img
}

// outlineIcon is the same mark in white lines on nothing, to the edge of its
// 32 pixels; lines sit on whole pixels to stay crisp.
func outlineIcon() image.Image {
	c := newCanvas(32)
	bubble := anyOf(
		roundRect(point{0, 1}, point{32, 26}, 5),
		polygon(point{5, 24}, point{5, 32}, point{14, 24}),
	)
	hole := anyOf(
		roundRect(point{2, 3}, point{30, 24}, 3),
		polygon(point{7, 23}, point{7, 27.6}, point{12.2, 23}),
	)
	c.paint(paper, func(p point) bool { return bubble(p) && !hole(p) })
	c.paint(paper, stroke(1, point{6, 10}, point{7.8, 11.8}, point{11, 8}))
	c.paint(paper, stroke(1, point{15, 10}, point{25, 10}))
	c.paint(paper, stroke(1, point{6, 18}, point{7.8, 19.8}, point{11, 16}))
	c.paint(paper, stroke(1, point{15, 18}, point{21, 18}))
	return c.img
}

type point struct{ x, y float64 }

// shape says whether a point lies inside it.
type shape func(point) bool

// canvas is a square picture that starts fully transparent.
type canvas struct {
	img  *image.NRGBA
	side int
}

func newCanvas(side int) *canvas {
	return &canvas{img: image.NewNRGBA(image.Rect(0, 0, side, side)), side: side}
}

// paint lays col over every pixel in proportion to how much of it s covers.
func (c *canvas) paint(col color.NRGBA, s shape) {
	for y := range c.side {
		for x := range c.side {
			if share := coverage(s, x, y); share > 0 {
				c.img.SetNRGBA(x, y, over(c.img.NRGBAAt(x, y), col, share))
			}
		}
	}
}

// coverage is the share of the pixel at x, y that lies inside s.
func coverage(s shape, x, y int) float64 {
	hits := 0
	for i := range samples {
		for j := range samples {
			p := point{float64(x) + (float64(i)+0.5)/samples, float64(y) + (float64(j)+0.5)/samples}
			if s(p) {
				hits++
			}
		}
	}
	return float64(hits) / (samples * samples)
}

// over composes col, at the given opacity, on top of base. White on nothing
// stays pure white: only its alpha says that an edge is soft.
func over(base, col color.NRGBA, opacity float64) color.NRGBA {
	under := float64(base.A) / 255 * (1 - opacity)
	alpha := opacity + under
	mix := func(b, c uint8) uint8 {
		return uint8(math.Round((float64(c)*opacity + float64(b)*under) / alpha))
	}
	return color.NRGBA{
		R: mix(base.R, col.R), G: mix(base.G, col.G), B: mix(base.B, col.B),
		A: uint8(math.Round(alpha * 255)),
	}
}

func anyOf(shapes ...shape) shape {
	return func(p point) bool {
		for _, s := range shapes {
			if s(p) {
				return true
			}
		}
		return false
	}
}

// roundRect is the rectangle from a to b with corners of the given radius.
func roundRect(a, b point, radius float64) shape {
	return func(p point) bool {
		nearest := point{
			min(max(p.x, a.x+radius), b.x-radius),
			min(max(p.y, a.y+radius), b.y-radius),
		}
		return math.Hypot(p.x-nearest.x, p.y-nearest.y) <= radius
	}
}

// polygon is the inside of a closed line, by the even-odd rule.
func polygon(corners ...point) shape {
	return func(p point) bool {
		inside := false
		for i, a := range corners {
			b := corners[(i+1)%len(corners)]
			if (a.y > p.y) != (b.y > p.y) && p.x < a.x+(p.y-a.y)*(b.x-a.x)/(b.y-a.y) {
				inside = !inside
			}
		}
		return inside
	}
}

// stroke is a line along the points with round ends; radius is half its width.
func stroke(radius float64, along ...point) shape {
	return func(p point) bool {
		for i := range len(along) - 1 {
			if distance(p, along[i], along[i+1]) <= radius {
				return true
			}
		}
		return false
	}
}

// distance is how far p is from the segment from a to b.
func distance(p, a, b point) float64 {
	dx, dy := b.x-a.x, b.y-a.y
	t := ((p.x-a.x)*dx + (p.y-a.y)*dy) / (dx*dx + dy*dy)
	t = min(max(t, 0), 1)
	return math.Hypot(p.x-a.x-t*dx, p.y-a.y-t*dy)
}
