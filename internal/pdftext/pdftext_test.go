package pdftext_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/pdftext"
	"github.com/planbot-go/planbot/internal/testing/ci"
)

// file makes a PDF of objects. The first is the catalog.
func file(objects ...string) string {
	var b strings.Builder
	b.WriteString("%PDF-1.7\n")
	var at []int
	for i, o := range objects {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.String()
}

func stream(head, body string) string {
	return fmt.Sprintf("<< %s /Length %d >>\nstream\n%s\nendstream", head, len(body), body)
}

// page makes a PDF of one page, with more objects from the sixth on.
func page(commands, resources string, more ...string) string {
	return file(append([]string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 600 800] >>",
		"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F 5 0 R >> " + resources + " >> >>",
		stream("", commands),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
	}, more...)...)
}

func textOf(t *testing.T, data string) string {
	t.Helper()
	d, err := pdftext.Open(t.Context(), []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range d.Pages() {
		p, err := d.Page(i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Text)
	}
	return strings.Join(all, "\f")
}

func deflated(s string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

const composite = "<< /Type /Font /Subtype /Type0 /BaseFont /AAAAAA+X /Encoding /Identity-H /DescendantFonts [7 0 R] /ToUnicode 8 0 R >>"

func toUnicode(lines string) string {
	return stream("", "1 begincodespacerange <0000> <ffff> endcodespacerange "+lines)
}

func TestText(t *testing.T) {
	t.Parallel()
	plain := page("BT /F 12 Tf 50 700 Td (Hello) Tj ET", "")
	hebrew := toUnicode("4 beginbfrange <0001> <0001> <05E9> <0002> <0002> <05DC> <0003> <0003> <05D5> <0004> <0004> <05DD> endbfrange 4 beginbfchar <0020> <0020> <0031> <0031> <005B> <005B> <005D> <005D> endbfchar")
	widths := "<< /Type /Font /Subtype /CIDFontType2 /DW 1000 /W [1 4 500 32 [300] 49 [500]] >>"
	for name, tt := range map[string]struct{ data, want string }{
		"a page":                {plain, "Hello"},
		"two lines":             {page("BT /F 12 Tf 50 700 Td (One) Tj 0 -14 Td (two.) Tj 0 -40 Td (Three) Tj ET", ""), "One\ntwo.\n\nThree"},
		"kerning is no gap":     {page("BT /F 12 Tf 50 700 Td [(T) 80 (ra) 40 (vel) -300 (on) ] TJ ET", ""), "Travel on"},
		"glyphs one by one":     {page("BT /F 10 Tf 1 0 0 1 50 700 Tm (G) Tj 1 0 0 1 57.8 700 Tm (e) Tj 1 0 0 1 63.3 700 Tm (r) Tj 1 0 0 1 70 700 Tm (x) Tj ET", ""), "Ger x"},
		"a hyphen":              {page("BT /F 12 Tf 50 700 Td (a com-) Tj 0 -14 Td (piler) Tj 0 -14 Td (Mother-) Tj 0 -14 Td (Board) Tj ET", ""), "a compiler\nMother-\nBoard"},
		"bold by two drawings":  {page("BT /F 12 Tf 50 700 Td (A) Tj 0.2 0 Td (A) Tj ET", ""), "A"},
		"superscript":           {page("BT /F 12 Tf 50 700 Td (m) Tj 10 4 Td /F 7 Tf (2) Tj ET", ""), "m2"},
		"a form":                {page("BT /F 12 Tf 50 700 Td (First) Tj ET /Fm Do BT /F 12 Tf 50 600 Td (last) Tj ET", "/XObject << /Fm 6 0 R >>", stream("/Subtype /Form /BBox [0 0 9 9] /Matrix [1 0 0 1 50 680]", "BT /F 12 Tf (in a form) Tj ET")), "First\nin a form\n\nlast"},
		"a form in itself":      {page("/Fm Do", "/XObject << /Fm 6 0 R >>", stream("/Subtype /Form /Resources << /Font << /F 5 0 R >> /XObject << /Fm 6 0 R >> >>", "BT /F 12 Tf 50 700 Td (x) Tj ET /Fm Do")), "x"},
		"a field":               {strings.Replace(page("BT /F 12 Tf 50 700 Td (Name:) Tj ET", "", "<< /Subtype /Widget /FT /Tx /V (Mia) /Rect [90 700 200 712] >>"), "/Contents 4 0 R", "/Contents 4 0 R /Annots [6 0 R]", 1), "Name:\nMia"},
		"PDF 2.0":               {strings.Replace(plain, "%PDF-1.7", "%PDF-2.0", 1), "Hello"},
		"bytes before":          {"\x1b%-12345X@PJL print ticket\r\n" + plain, "Hello"},
		"much behind":           {plain + strings.Repeat("\n", 5000), "Hello"},
		"no table":              {strings.Replace(plain, "startxref", "stortxref", 1), "Hello"},
		"a wrong table":         {strings.NewReplacer("0000000", "0000001").Replace(plain), "Hello"},
		"cut off":               {plain[:strings.Index(plain, "xref")], "Hello"},
		"wrong length":          {strings.Replace(plain, "/Length 36", "/Length 99999", 1), "Hello"},
		"packed":                {strings.Replace(page("", ""), stream("", ""), stream("/Filter /FlateDecode", deflated("BT /F 12 Tf 50 700 Td (Packed) Tj ET")), 1), "Packed"},
		"packed and cut off":    {strings.Replace(page("", ""), stream("", ""), stream("/Filter /FlateDecode", deflated("BT /F 12 Tf 50 700 Td (Packed) Tj ET")[:40]), 1), "Packed"},
		"glyphs by name":        {strings.Replace(page("BT /F 12 Tf 50 700 Td (\001\002\003) Tj ET", "", "<< /Type /Font /Subtype /Type1 /BaseFont /X /Encoding << /Differences [1 /f_i /uni20AC /odieresis.alt] >> >>"), "/F 5 0 R", "/F 6 0 R", 1), "fi€ö"},
		"composite, whole word": {strings.Replace(page("BT /F 12 Tf 50 700 Td <0031> Tj 6 0 Td <0031> Tj 20 0 Td <0031> Tj ET", "", composite, widths, hebrew), "/F 5 0 R", "/F 6 0 R", 1), "11 1"},
		"right to left":         {strings.Replace(page("BT /F 12 Tf 50 700 Td <0004000300020001> Tj ET", "", composite, widths, hebrew), "/F 5 0 R", "/F 6 0 R", 1), "שלום"},
		"right to left, number": {strings.Replace(page("BT /F 12 Tf 50 700 Td <0031003100200004000300020001> Tj ET", "", composite, widths, hebrew), "/F 5 0 R", "/F 6 0 R", 1), "שלום 11"},
		"brackets as meant":     {strings.Replace(page("BT /F 12 Tf 50 700 Td <005D0004000300020001005B> Tj ET", "", composite, widths, hebrew), "/F 5 0 R", "/F 6 0 R", 1), "[שלום]"},
		"brackets as seen":      {strings.Replace(page("BT /F 12 Tf 50 700 Td <005B0004000300020001005D> Tj ET", "", composite, widths, hebrew), "/F 5 0 R", "/F 6 0 R", 1), "[שלום]"},
		"drawn from the right":  {strings.Replace(page("BT /F 12 Tf 68 700 Td <0001> Tj -6 0 Td <0002> Tj -6 0 Td <0003> Tj -6 0 Td <0004> Tj ET", "", composite, widths, hebrew), "/F 5 0 R", "/F 6 0 R", 1), "שלום"},
		"said otherwise":        {page("BT /F 12 Tf 50 700 Td /Span << /ActualText (word) >> BDC (w) Tj (x) Tj EMC ET", ""), "word"},
		"turned":                {strings.Replace(page("BT /F 12 Tf 0 1 -1 0 300 100 Tm (Side) Tj 0 -14 Td (ways) Tj ET", ""), "/Contents", "/Rotate 90 /Contents", 1), "Side\nways"},
		"beside the page":       {page("BT /F 12 Tf 50 700 Td (seen) Tj 0 5000 Td (unseen) Tj ET", ""), "seen"},
		"a picture within":      {page("BI /W 2 /H 2 ID \x00EI\xff(\x01 EI BT /F 12 Tf 50 700 Td (behind) Tj ET", ""), "behind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := textOf(t, tt.data); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestPicturesAreCounted: a page says that it shows a picture, and how many characters nobody can read.
func TestPicturesAreCounted(t *testing.T) {
	t.Parallel()
	data := strings.Replace(page("/Im Do BT /F 12 Tf 50 700 Td <00110012> Tj ET", "/XObject << /Im 8 0 R >>",
		strings.Replace(composite, "/ToUnicode 8 0 R", "", 1), "<< /Type /Font /Subtype /CIDFontType0 >>", stream("/Subtype /Image", "x")), "/F 5 0 R", "/F 6 0 R", 1)
	d, err := pdftext.Open(t.Context(), []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := d.Page(0); err != nil || !p.Picture || p.Unknown != 2 || p.Text != "" {
		t.Errorf("%+v %v", p, err)
	}
}

// hostile are files whose numbers are chosen to take memory or time.
func hostile() map[string]string {
	row := func(index, width string) string {
		return "%PDF-1.7\n1 0 obj\n" + stream("/Type /XRef /W ["+width+"] /Size 1000000000 "+index+" /Root 2 0 R", strings.Repeat("\x01", 50)) + "\nendobj\nstartxref\n9\n%%EOF"
	}
	many := strings.Repeat("q ", 1_000_000)
	return map[string]string{
		"table":             "%PDF-1.7\nxref\n4294967295 1\n0000000000 00000 n \ntrailer\n<< /Size 1 /Root 1 0 R >>\nstartxref\n9\n%%EOF",
		"table's count":     "%PDF-1.7\nxref\n0 4294967295\ntrailer\n<< /Root 1 0 R >>\nstartxref\n9\n%%EOF",
		"stream's index":    row("/Index [0 4000000000]", "1 2 1"),
		"stream's width":    row("", "1 4000000000 1"),
		"no width":          row("", "0 0 0"),
		"a circle of Prev":  "%PDF-1.7\nxref\n0 0\ntrailer\n<< /Prev 9 >>\nstartxref\n9\n%%EOF",
		"a circle of pages": file("<< /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R 1 0 R 2 0 R] >>"),
		"a circle of refs":  file("<< /Pages 2 0 R >>", "3 0 R", "2 0 R"),
		"its own length":    file("<< /Pages 2 0 R >>", "<< /Length 2 0 R >>\nstream\nx\nendstream"),
		"nesting":           file(strings.Repeat("[", 500_000)),
		"nesting of forms":  page("/Fm Do /Fm Do /Fm Do /Fm Do", "/XObject << /Fm 6 0 R >>", stream("/Subtype /Form /Resources << /XObject << /Fm 6 0 R >> >>", strings.Repeat("/Fm Do ", 40))),
		"endless hex":       page("BT /F 12 Tf <41", ""),
		"endless string":    page("BT /F 12 Tf ("+strings.Repeat("(", 1000), ""),
		"predictor":         strings.Replace(page("", ""), stream("", ""), stream("/Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 4000000000 >>", deflated("xxxx")), 1),
		"colors":            strings.Replace(page("", ""), stream("", ""), stream("/Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 4 /Colors 4000000000 >>", deflated("xxxx")), 1),
		"filters":           strings.Replace(page("", ""), stream("", ""), stream("/Filter ["+strings.Repeat("/FlateDecode ", 1000)+"]", deflated("xxxx")), 1),
		"object stream":     file("<< /Pages 2 0 R >>", stream("/Type /ObjStm /N 4000000000 /First 4000000000", "1 1")),
		"saved states":      page(many, ""),
		"ranges":            strings.Replace(page("BT /F 12 Tf <00410041> Tj ET", "", composite, "<< /W [0 2000000000 500 0 [] 4000000000 [1]] >>", toUnicode(strings.Repeat("1 beginbfrange <00000000> <ffffffff> <0041> endbfrange ", 10_000))), "/F 5 0 R", "/F 6 0 R", 1),
		"one font's program": strings.Replace(page("BT /F 12 Tf <0041> Tj ET", "", "<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [7 0 R] >>",
			"<< /FontDescriptor << /FontFile2 8 0 R >> >>", stream("", "\x00\x01\x00\x00\xff\xff\x00\x00\x00\x00\x00\x00cmap\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")), "/F 5 0 R", "/F 6 0 R", 1),
	}
}

// TestHostile: no file takes more memory than it has bytes for, about, or never ends.
func TestHostile(t *testing.T) {
	ci.NotUnderRace(t, "it reads hundreds of files")
	for name, data := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if d, err := pdftext.Open(ctx, []byte(data)); err == nil {
			for i := range min(d.Pages(), 10) {
				if _, err := d.Page(i); err != nil && !errors.Is(err, pdftext.ErrTooLarge) {
					t.Errorf("%s: %v", name, err)
				}
			}
		} else if ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 400<<20 {
			t.Errorf("%s: %d MB", name, took>>20)
		}
	}
}

// TestBomb: what unpacks to too much is refused.
func TestBomb(t *testing.T) {
	t.Parallel()
	bomb := deflated(strings.Repeat(deflated(strings.Repeat(" ", 30<<20)), 1))
	contents := ""
	var more []string
	for i := range 20 {
		contents += fmt.Sprintf("%d 0 R ", 6+i)
		more = append(more, stream("/Filter [/FlateDecode /FlateDecode]", bomb))
	}
	data := strings.Replace(page("", "", more...), "/Contents 4 0 R", "/Contents ["+contents+"]", 1)
	d, err := pdftext.Open(t.Context(), []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := d.Page(0); err != nil && !errors.Is(err, pdftext.ErrTooLarge) || len(p.Text) > 0 {
		t.Errorf("%v %d", err, len(p.Text))
	}
}

// TestEndsWithTheContext: reading ends when its context has.
func TestEndsWithTheContext(t *testing.T) {
	t.Parallel()
	d, err := pdftext.Open(t.Context(), []byte(page("BT /F 12 Tf (x) Tj ET", "")))
	if err != nil || d.Pages() != 1 {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pdftext.Open(ctx, []byte(page("", ""))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestBrokenAnywhere: no byte that is wrong makes the reader panic.
func TestBrokenAnywhere(t *testing.T) {
	t.Parallel()
	whole := strings.Replace(page("BT /F 12 Tf 50 700 Td <00010031> Tj /Fm Do BI /W 1 ID x EI ET", "/XObject << /Fm 9 0 R >>", composite,
		"<< /DW 1000 /W [1 4 500 32 [300] 49 [500]] /FontDescriptor << /FontFile2 9 0 R >> >>", toUnicode("1 beginbfrange <0001> <0002> [<0041> <0042>] endbfrange"),
		stream("/Subtype /Form /Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 4 >>", deflated("\x02BT E\x01T   "))), "/F 5 0 R", "/F 6 0 R", 1)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
	for range 1000 {
		data := []byte(whole)
		for range 1 + random.IntN(4) {
			data[random.IntN(len(data))] = "0123456789<>[]()/ \nRx\xff"[random.IntN(21)]
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		d, err := pdftext.Open(ctx, data)
		if err == nil {
			_, _ = d.Page(0)
		}
		if ctx.Err() != nil {
			t.Errorf("never ends: %q", data)
		}
		cancel()
	}
}

func FuzzOpen(f *testing.F) {
	ci.NotUnderRace(f, "it reads hundreds of files")
	for _, data := range hostile() {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := pdftext.Open(t.Context(), data)
		if err != nil {
			return
		}
		for i := range min(d.Pages(), 3) {
			_, _ = d.Page(i)
		}
	})
}

// TestScans: a page that is one JPEG and nothing else says so, and has it.
func TestScans(t *testing.T) {
	t.Parallel()
	const draw = "q 600 0 0 800 0 0 cm /Im Do Q"
	scanned := func(commands, head, body string) string {
		return page(commands, "/XObject << /Im 6 0 R >>", stream("/Subtype /Image "+head, body))
	}
	for name, tt := range map[string]struct{ data, want string }{
		"a scan":         {scanned(draw, "/Filter /DCTDecode", "jpeg"), "jpeg"},
		"packed":         {scanned(draw, "/Filter [/FlateDecode /DCTDecode] /DecodeParms [null null]", deflated("jpeg")), "jpeg"},
		"in a form":      {page("/Fm Do", "/XObject << /Fm 6 0 R >>", stream("/Subtype /Form /Resources << /XObject << /Im 7 0 R >> >>", draw), stream("/Subtype /Image /Filter /DCTDecode", "jpeg")), "jpeg"},
		"of another way": {scanned(draw, "/Filter /CCITTFaxDecode", "fax"), ""},
		"negative":       {scanned(draw, "/Filter /DCTDecode /Decode [1 0]", "jpeg"), ""},
		"small":          {scanned("q 90 0 0 90 9 9 cm /Im Do Q", "/Filter /DCTDecode", "jpeg"), ""},
		"two":            {scanned(draw+" "+draw, "/Filter /DCTDecode", "jpeg"), ""},
		"with text":      {scanned(draw+" BT /F 12 Tf 50 700 Td (Hello) Tj ET", "/Filter /DCTDecode", "jpeg"), ""},
		"on its head":    {scanned("q -600 0 0 -800 600 800 cm /Im Do Q", "/Filter /DCTDecode", "jpeg"), ""},
		"turned":         {strings.Replace(scanned(draw, "/Filter /DCTDecode", "jpeg"), "/Contents", "/Rotate 90 /Contents", 1), ""},
	} {
		d, err := pdftext.Open(t.Context(), []byte(tt.data))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := d.Page(0); err != nil || !p.Picture || string(p.Scan) != tt.want {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
}
