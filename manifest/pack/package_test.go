package pack_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/manifest/pack"
)

// entry is one file of a package under test; head, when given, is written as
// it is, so that it may lie.
type entry struct {
	name string
	data []byte
	head *zip.FileHeader
}

// goodEntries are the files of a sound package.
func goodEntries(t *testing.T) []entry {
	t.Helper()
	files := unpack(t, build(t, good()))
	var out []entry
	for _, name := range []string{"manifest.json", "color.png", "outline.png"} {
		out = append(out, entry{name: name, data: []byte(files[name])})
	}
	return out
}

func zipOf(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := zip.NewWriter(&out)
	for _, e := range entries {
		create := zw.CreateRaw
		if e.head == nil {
			e.head, create = &zip.FileHeader{Name: e.name, Method: zip.Deflate}, zw.CreateHeader
		}
		w, err := create(e.head)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil && !strings.HasSuffix(e.head.Name, "/") {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// raw is a stored entry whose header fix may falsify.
func raw(name string, data []byte, fix func(*zip.FileHeader)) entry {
	size := uint64(len(data))
	head := &zip.FileHeader{Name: name, CRC32: crc32.ChecksumIEEE(data), CompressedSize64: size, UncompressedSize64: size}
	if fix != nil {
		fix(head)
	}
	return entry{name: name, data: data, head: head}
}

func TestHostileZips(t *testing.T) {
	t.Parallel()
	extra := func(e entry) func([]entry) []entry {
		return func(all []entry) []entry { return append(all, e) }
	}
	swap := func(name string, e entry) func([]entry) []entry {
		return func(all []entry) []entry {
			for i := range all {
				if all[i].name == name {
					all[i] = e
				}
			}
			return all
		}
	}
	bomb := bytes.Repeat([]byte{' '}, 21<<20)
	tests := map[string]struct {
		change func([]entry) []entry
		want   []string
	}{
		"none": {func(all []entry) []entry { return all }, nil},
		"in a folder": {func(all []entry) []entry {
			for i := range all {
				all[i].name = "app/" + all[i].name
			}
			return append(all, entry{name: "app/"})
		}, []string{
			"app/: is no plain file name", "app/manifest.json: is no plain file name", "app/color.png: is no plain file name",
			"app/outline.png: is no plain file name", "manifest.json: is missing at the root",
		}},
		"climbs out":          {extra(entry{name: "../evil.txt"}), []string{"../evil.txt: is no plain file name"}},
		"climbs inside":       {extra(entry{name: "a/../../evil.txt"}), []string{"is no plain file name"}},
		"absolute":            {extra(entry{name: "/etc/passwd"}), []string{"/etc/passwd: is no plain file name"}},
		"backslash":           {extra(entry{name: `..\evil.txt`}), []string{"is no plain file name"}},
		"drive":               {extra(entry{name: "C:evil.txt"}), []string{"is no plain file name"}},
		"no name":             {extra(raw("", nil, nil)), []string{`"": is no plain file name`}},
		"control characters":  {extra(raw("evil\x1b[2J\n.txt\x07/", nil, nil)), []string{"is no plain file name"}},
		"twice":               {extra(entry{name: "color.png"}), []string{"color.png: is in the zip more than once"}},
		"twice by case":       {extra(entry{name: "Manifest.json"}), []string{"Manifest.json: is in the zip more than once"}},
		"symlink":             {extra(raw("link", []byte("/etc/passwd"), func(h *zip.FileHeader) { h.SetMode(os.ModeSymlink | 0o777) })), []string{"link: is not a regular file"}},
		"encrypted":           {extra(raw("secret", []byte("x"), func(h *zip.FileHeader) { h.Flags |= 1 })), []string{"secret: is encrypted"}},
		"other method":        {extra(raw("packed", []byte("x"), func(h *zip.FileHeader) { h.Method = 93 })), []string{"packed: is packed with a method"}},
		"icon, other method":  {swap("color.png", raw("color.png", []byte("x"), func(h *zip.FileHeader) { h.Method = 93 })), []string{"packed with a method", "color.png: cannot be read"}},
		"wrong checksum":      {swap("color.png", raw("color.png", []byte("x"), func(h *zip.FileHeader) { h.CRC32++ })), []string{"color.png: cannot be read"}},
		"bomb beside":         {extra(entry{name: "bomb", data: bomb}), []string{"unpacks to more than"}},
		"bomb as manifest":    {swap("manifest.json", entry{name: "manifest.json", data: bomb}), []string{"unpacks to more than", "manifest.json: has more than 1048576 bytes"}},
		"bomb as icon":        {swap("color.png", entry{name: "color.png", data: bomb[:2<<20]}), []string{"color.png: has more than 1048576 bytes"}},
		"claims to be huge":   {extra(raw("huge", []byte("x"), func(h *zip.FileHeader) { h.UncompressedSize64 = 1 << 63 })), []string{"unpacks to more than"}},
		"two overflow to one": {extra(raw("huge", nil, func(h *zip.FileHeader) { h.UncompressedSize64 = 1<<64 - 1 })), []string{"unpacks to more than"}},
		"claims to be small":  {swap("color.png", raw("color.png", bytes.Repeat([]byte{'x'}, 100), func(h *zip.FileHeader) { h.UncompressedSize64 = 1 })), []string{"color.png: cannot be read"}},
		"too many entries": {func(all []entry) []entry {
			for range 200 {
				all = append(all, entry{name: "x"})
			}
			return all
		}, []string{"app.zip: has 203 entries, more than 200"}},
		"no manifest":  {func(all []entry) []entry { return all[1:] }, []string{"manifest.json: is missing at the root"}},
		"no color":     {func(all []entry) []entry { return append(all[:1], all[2]) }, []string{"color.png: is missing at the root"}},
		"no outline":   {func(all []entry) []entry { return all[:2] }, []string{"outline.png: is missing at the root"}},
		"nothing":      {func([]entry) []entry { return nil }, []string{"manifest.json: is missing at the root"}},
		"bad manifest": {swap("manifest.json", entry{name: "manifest.json", data: []byte("{")}), []string{"manifest.json: is not JSON"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pack := zipOf(t, tt.change(goodEntries(t)))
			wantProblems(t, writeFile(t, "app.zip", pack), tt.want...)
		})
	}
}

func TestLanguageFiles(t *testing.T) {
	t.Parallel()
	const least = `"description.short": "a", "description.full": "b"`
	for name, tt := range map[string]struct {
		file, data string
		want       []string
	}{
		"missing":     {"fr.json", "{}", []string{"de.json: is missing at the root"}},
		"broken":      {"de.json", "{", []string{"de.json: is not JSON"}},
		"empty":       {"de.json", "{}", []string{"de.json: missing properties"}},
		"least":       {"de.json", `{"name.short": "x", ` + least + `}`, nil},
		"blank":       {"de.json", `{"name.short": " ", ` + least + `}`, []string{"de.json#/name.short: is empty"}},
		"long":        {"de.json", `{"name.short": "` + strings.Repeat("n", 31) + `", ` + least + `}`, []string{"de.json#/name.short: maxLength"}},
		"unknown":     {"de.json", `{"name.short": "x", "name.long": "y", ` + least + `}`, []string{"de.json: additional properties 'name.long'"}},
		"placeholder": {"de.json", `{"name.short": "${{BOT_ID}}", ` + least + `}`, []string{"the placeholder ${{BOT_ID}} is not filled in"}},
		"too big":     {"de.json", strings.Repeat(" ", 1<<20+1), []string{"de.json: has more than 1048576 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := goodDoc(t)
			set(t, doc, "/localizationInfo", languages("de", "de.json"))
			raw, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			all := goodEntries(t)
			all[0].data = raw
			wantProblems(t, writeFile(t, "app.zip", zipOf(t, append(all, entry{name: tt.file, data: []byte(tt.data)}))), tt.want...)
		})
	}
}

func TestManyLanguagesAreCapped(t *testing.T) {
	t.Parallel()
	var all list
	for i := range 1000 {
		all = append(all, map[string]any{"languageTag": "x" + strconv.Itoa(i), "file": strconv.Itoa(i) + ".json"})
	}
	doc := goodDoc(t)
	set(t, doc, "/localizationInfo", map[string]any{"defaultLanguageTag": "en", "additionalLanguages": all})
	problems, err := pack.Validate(filepath.Dir(writeJSON(t, doc)))
	if err != nil || len(problems) != 203 { // 200 files and both icons are missing
		t.Errorf("got %d problems, %v", len(problems), err)
	}
}

func TestNotAZip(t *testing.T) {
	t.Parallel()
	pack := build(t, good())
	wantProblems(t, writeFile(t, "app.zip", []byte("hello")), "app.zip: is not a readable zip")
	wantProblems(t, writeFile(t, "app.zip", nil), "app.zip: is not a readable zip")
	wantProblems(t, writeFile(t, "app.zip", pack[:len(pack)/2]), "app.zip: is not a readable zip")
	wantProblems(t, writeFile(t, "renamed.bin", pack))
	wantProblems(t, writeFile(t, "app.zip", make([]byte, 10<<20+1)), "app.zip: has 10485761 bytes, more than 10485760")
}

func TestFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wantProblems(t, dir, "manifest.json: is missing")
	for _, e := range goodEntries(t) {
		if err := os.WriteFile(filepath.Join(dir, e.name), e.data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wantProblems(t, dir)

	icon := filepath.Join(dir, "color.png")
	if err := os.Remove(icon); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", icon); err != nil {
		t.Fatal(err)
	}
	wantProblems(t, dir, "color.png: cannot be read")
	if err := os.Remove(icon); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(icon, 0o700); err != nil {
		t.Fatal(err)
	}
	wantProblems(t, dir, "color.png: is not a regular file")
}

// square is a picture of one colour, with a dot of another in a corner.
func square(side int, fill, dot color.Color) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for i := range side * side {
		img.Set(i%side, i/side, fill)
	}
	img.Set(side-1, 2, dot)
	return img
}

func pngOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestIcons(t *testing.T) {
	t.Parallel()
	var (
		clear = color.NRGBA{}
		white = color.NRGBA{R: 255, G: 255, B: 255, A: 255}
		soft  = color.NRGBA{R: 255, G: 255, B: 255, A: 40}
		grey  = color.NRGBA{R: 254, G: 255, B: 255, A: 255}
		ivory = color.NRGBA{R: 255, G: 255, B: 254, A: 255}
		faint = color.NRGBA{R: 10, G: 20, B: 30, A: 1}
	)
	palette := image.NewPaletted(image.Rect(0, 0, 32, 32), color.Palette{clear, white})
	palette.SetColorIndex(3, 3, 1)
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, square(192, white, grey), nil); err != nil {
		t.Fatal(err)
	}
	whole := pngOf(t, square(192, white, grey))
	huge := bytes.Clone(whole)
	copy(huge[16:], []byte{0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0}) // 100000 × 100000, checksum put right below
	sum := crc32.ChecksumIEEE(huge[12:29])
	copy(huge[29:], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})

	tests := map[string]struct {
		file string
		data []byte
		want []string
	}{
		"any color":          {"color.png", whole, nil},
		"color 96":           {"color.png", pngOf(t, square(96, white, grey)), []string{"color.png: has 96×96 pixels, the color icon must have 192×192"}},
		"color not square":   {"color.png", pngOf(t, image.NewNRGBA(image.Rect(0, 0, 192, 191))), []string{"has 192×191 pixels"}},
		"color too narrow":   {"color.png", pngOf(t, image.NewNRGBA(image.Rect(0, 0, 191, 192))), []string{"has 191×192 pixels"}},
		"color shows none":   {"color.png", pngOf(t, square(192, clear, clear)), []string{"color.png: is fully transparent"}},
		"color a photo":      {"color.png", photo.Bytes(), []string{"color.png: is not a PNG"}},
		"color empty":        {"color.png", nil, []string{"color.png: is not a PNG"}},
		"color cut off":      {"color.png", whole[:len(whole)-20], []string{"color.png: is a damaged PNG"}},
		"color of 10^10":     {"color.png", huge, []string{"has 100000×100000 pixels"}},
		"outline soft edge":  {"outline.png", pngOf(t, square(32, clear, soft)), nil},
		"outline palette":    {"outline.png", pngOf(t, palette), nil},
		"outline hole":       {"outline.png", pngOf(t, square(32, white, clear)), nil},
		"outline 192":        {"outline.png", pngOf(t, square(192, clear, white)), []string{"the outline icon must have 32×32"}},
		"outline off-white":  {"outline.png", pngOf(t, square(32, clear, grey)), []string{"neither white nor transparent, at 31,2: #FEFFFF"}},
		"outline yellowish":  {"outline.png", pngOf(t, square(32, clear, ivory)), []string{"neither white nor transparent, at 31,2: #FFFFFE"}},
		"outline faint dark": {"outline.png", pngOf(t, square(32, clear, faint)), []string{"neither white nor transparent, at 31,2: #0A141E"}},
		"outline all white":  {"outline.png", pngOf(t, square(32, white, white)), []string{"must be white on a transparent background: 1024 white and 0 transparent"}},
		"outline all clear":  {"outline.png", pngOf(t, square(32, clear, clear)), []string{"0 white and 1024 transparent"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := goodEntries(t)
			for i := range entries {
				if entries[i].name == tt.file {
					entries[i].data = tt.data
				}
			}
			wantProblems(t, writeFile(t, "app.zip", zipOf(t, entries)), tt.want...)
		})
	}
}

// The symbol must survive the crop to a circle or a hexagon: outside of the
// central 96 pixels there is only the one solid background.
func TestColorIconKeepsToTheSafeArea(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join("icons", "color.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	safe, background, drawn := image.Rect(48, 48, 144, 144), img.At(0, 0), 0
	for i := range 192 * 192 {
		p := image.Pt(i%192, i/192)
		if img.At(p.X, p.Y) == background {
			continue
		}
		if drawn++; !p.In(safe) {
			t.Fatalf("the symbol reaches %v, outside of %v", p, safe)
		}
	}
	if _, _, _, a := background.RGBA(); a != 0xffff || drawn < 2000 {
		t.Errorf("background opacity %d, %d pixels drawn", a, drawn)
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(build(f, good()))
	f.Add(manifestOf(f, good()))
	f.Add([]byte(`{"bots":{"0":{}},"icons":[],"validDomains":[[]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		problems, err := pack.Validate(writeFile(t, "app", data))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if _, text, _ := strings.Cut(p, ": "); text == "" || strings.ContainsAny(p, "\n\x1b") {
				t.Errorf("problem %q", p)
			}
		}
	})
}
