package knowledge_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"github.com/xuri/excelize/v2"

	"github.com/planbot-go/planbot/knowledge"
)

// archive makes a zip.
func archive(t *testing.T, entries map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range entries {
		e, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(e, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// docx makes a document of Word of a body.
func docx(t *testing.T, body string) string {
	t.Helper()
	return archive(t, map[string]string{
		"[Content_Types].xml": "<Types/>",
		"docProps/core.xml":   `<cp:coreProperties xmlns:cp="c" xmlns:dc="d"><dc:title>Travel</dc:title></cp:coreProperties>`,
		"word/styles.xml":     `<w:styles xmlns:w="w"><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style><w:style w:styleId="unseen"><w:rPr><w:vanish/></w:rPr></w:style></w:styles>`,
		"word/document.xml":   `<w:document xmlns:w="w"><w:body>` + body + `</w:body></w:document>`,
	})
}

func xlsx(t *testing.T) string {
	t.Helper()
	f := excelize.NewFile()
	rows := [][]any{{"Part", "Code", "Price"}, {"Bolt", "secret", 3}, {}, {"Cog", "secret", 4}, {"Nut", "secret", 2.5}}
	for i, row := range rows {
		if err := f.SetSheetRow("Sheet1", fmt.Sprintf("A%d", i+1), &row); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.SetColVisible("Sheet1", "B", false), f.SetRowVisible("Sheet1", 4, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.NewSheet("Hidden"); err != nil {
		t.Fatal(err)
	}
	if err := f.SetCellStr("Hidden", "A1", "secret"); err != nil {
		t.Fatal(err)
	}
	if err := f.SetSheetVisible("Hidden", false); err != nil {
		t.Fatal(err)
	}
	data, err := f.WriteToBuffer()
	if err != nil {
		t.Fatal(err)
	}
	return data.String()
}

// pdf makes a PDF with these contents of pages, which may be packed; count is how many pages it says it has.
func pdf(count int, pages ...string) string {
	var b strings.Builder
	var at []int
	object := func(text string) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), text)
	}
	b.WriteString("%PDF-1.4\n")
	kids := ""
	for i := range pages {
		kids += fmt.Sprintf("%d 0 R ", 4+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids, count))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, page := range pages {
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 600 800] /Contents %d 0 R >>", 5+2*i))
		filter := ""
		if strings.HasPrefix(page, "\x78") {
			filter = "/Filter /FlateDecode "
		}
		object(fmt.Sprintf("<< %s/Length %d >>\nstream\n%s\nendstream", filter, len(page), page))
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.String()
}

func TestReaders(t *testing.T) {
	t.Parallel()
	type piece = knowledge.Piece
	for name, tt := range map[string]struct {
		data string
		want []piece
	}{
		"page.bin": {`<!DOCTYPE html><title>T</title><nav>menu</nav><script>bad()</script><h1>A</h1><p>One <b>two</b>three.</p><p style="display: none">hidden</p>
			<p style="color:#FFF">white</p><div hidden>hidden</div><ul><li>x<li>y</ul><!-- hidden --><table><tr><th>h</th><th>k</th></tr><tr><td>a <p>b</td><td>c</td></tr></table><pre>z
 z</pre>`, []piece{{"A", "One twothree.\n\n- x\n- y\n\n| h | k |\n| a b | c |\n\n```\nz\n z\n```"}}},
		"read.me.md":  {"<!-- a -->\n<p align=\"center\">Logo</p>\n\n# A\n\nx\n\n## B\n\ny", []piece{{"", "Logo"}, {"A", "x"}, {"A › B", "y"}}},
		"whole.md":    {"<!DOCTYPE html>\n<h1>A</h1><p>x</p>", []piece{{"A", "x"}}},
		"list.html":   {"<ul><li>x</ul>", []piece{{"", "- x"}}},
		"page.xhtml":  {"<?xml version=\"1.0\"?>\n<!-- a -->\n<html xmlns=\"h\"><body><script>bad()</script><p>x</p></body></html>", []piece{{"", "x"}}},
		"form.html":   {"<html><form><h1>A</h1>text<button>Send</button></form>", []piece{{"A", "text"}}},
		"unseen.html": {"<html><font color=white>a</font><p style=\"position:absolute; left: -9999px\">b</p><p style=\"margin-left:-12px\">x</p>", []piece{{"", "x"}}},
		"class.html": {`<html><style>@import "x"; .h, #x, p.y { display:none } @media print{.seen{display:none}} @media screen { .s{visibility:hidden} } body{opacity:0} .w{color:#fff} /* .seen{display:none} */</style>
			<p class="a h">1</p><p id="x">2</p><p class=y>3</p><p class=s>4</p><pre class=h>5</pre><p class="seen w">x</p><div class=y>y</div>`, []piece{{"", "x\n\ny"}}},
		"small.html":  {`<html><p style="max-height:0;overflow:hidden">1</p><p style="color:rgba(0,0,0,0)">2</p><p style="clip: rect(0 0 0 0)">3</p><p style="font-size:1px">4</p><p style="height:0">x</p>`, []piece{{"", "x"}}},
		"nested.html": {`<html><table><caption>Prices</caption><tr><td>a<table><caption>b</caption><tr><td>c<td>d</table>e<td>f<tr><td>g<td>h</table>`, []piece{{"", "Prices\n\n| a b c d e | f |\n| g | h |"}}},
		"hides.md":    {"a <span hidden>1 *2* <span>3</span> 4</span>b *c<b style='display:none'>5* d\n\ne<br hidden>f\n\n<div hidden>\n\n6\n\n- 7\n\n<div>\n8\n</div>\n\n9\n\n</div><p>g</p>\n\n<p hidden>\n\nh\n\n<script>\nx\n</script>\n\ni", []piece{{"", "a b c\n\nef\n\ng\n\nh\n\ni"}}},
		"latin.html":  {"<html><meta charset=\"iso-8859-1\"><p>F\xfc\xdfe</p>", []piece{{"", "Füße"}}},
		"main.html":   {"<html><body>menu<main><h2>A</h2>text</main>foot", []piece{{"A", "text"}}},
		"in.md":       {"a\n\n<div>b<script>bad()</script></div>\n\n<!-- hidden -->", []piece{{"", "a\n\nb"}}},
		"word.pdf": {
			docx(t, `<w:p><w:pPr><w:pStyle w:val="berschrift1"/></w:pPr><w:r><w:t>Rail</w:t></w:r></w:p>
			<w:p><w:r><w:t xml:space="preserve">Second </w:t></w:r><w:ins><w:r><w:t>class</w:t></w:r></w:ins><w:del><w:r><w:delText>secret</w:delText><w:t>secret</w:t></w:r></w:del><w:r><w:tab/><w:t>only</w:t></w:r>
			<w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r><w:r><w:rPr><w:rStyle w:val="unseen"/></w:rPr><w:t>secret</w:t></w:r></w:p>
			<w:p><w:pPr><w:pStyle w:val="unseen"/></w:pPr><w:r><w:t>secret</w:t></w:r></w:p>
			<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>x</w:t></w:r></w:p><w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>y</w:t></w:r></w:p>
			<w:tbl><w:tr><w:tc><w:p><w:r><w:t>h</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>k</w:t></w:r></w:p></w:tc></w:tr><w:tr><w:tc><w:p/></w:tc><w:tc><w:p><w:r><w:t>v</w:t></w:r></w:p></w:tc></w:tr>
			<w:tr><w:trPr><w:del/></w:trPr><w:tc><w:p><w:r><w:t>secret</w:t></w:r></w:p></w:tc></w:tr>
			<w:tr><w:tc><w:tcPr><w:cellDel/></w:tcPr><w:p><w:r><w:t>secret</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>z</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
			<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:r><w:t>End</w:t></w:r></w:p>`),
			[]piece{{"Rail", "Second class only\n\n- x\n- y\n\n| h | k |\n|  | v |\n| z |\n\nEnd"}},
		},
		"table.docx": {xlsx(t), []piece{{"Sheet1", "| Part | Price |\n| Bolt | 3 |\n| Nut | 2.5 |"}}},
		"page.txt": {
			pdf(2, "BT /F1 12 Tf 50 700 Td (Gr\\374n one) Tj 0 -14 Td (two) Tj ET", "BT /F1 12 Tf 50 700 Td (three) Tj ET"),
			[]piece{{"page 1", "Grün one\ntwo"}, {"page 2", "three"}},
		},
		"web.docx": {archive(t, map[string]string{"word/document2.xml": `<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>x</w:t></w:r></w:p></w:body></w:document>`}), []piece{{"", "x"}}},
		"rule.txt": {"---\na: b\n---\naccess: c", []piece{{"", "---\na: b\n---\naccess: c"}}},
		"wide.txt": {utf16Text("Füße\n\nb"), []piece{{"", "Füße\n\nb"}}},
		"plain":    {"# a\n* b", []piece{{"", "# a\n* b"}}},
	} {
		got, err := knowledge.Cut(t.Context(), name, tt.data, 50)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func utf16Text(text string) string {
	data := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		data = append(data, byte(unit), byte(unit>>8))
	}
	return string(data)
}

// noise is what no archive makes smaller.
func noise() string {
	text := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(text)
	return string(text)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 2001 {
		many[fmt.Sprint(i)] = ""
	}
	for why, data := range map[string]string{
		"presentation (PPTX)":    archive(t, map[string]string{"ppt/presentation.xml": "x"}),
		"OpenDocument":           archive(t, map[string]string{"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": "x"}),
		"is an archive; only":    archive(t, map[string]string{"x": "y"}),
		"e-mail (EML)":           "From: a@b.test\nDate: Mon, 1 Jan 2026 10:00:00 +0000\nSubject: x\n\nHello",
		"old or an encrypted":    "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1xxxx",
		"is RTF":                 "{\\rtf1 x}",
		"is a picture":           "\x89PNG\r\n\x1a\nxxxx",
		"no format that is":      "a\x00b",
		"save it as UTF-8":       "Gr\xfcn",
		"is empty":               " \n",
		"archive of 2001":        archive(t, many),
		"damaged":                "%PDF-1.4\nnothing",
		"has 501 pages":          pdf(501, slices.Repeat([]string{"BT ET"}, 501)...),
		"as a scan has":          pdf(1, "q Q"),
		"is damaged: ":           "PK\x03\x04 and no more",
		"front matter that is":   "---\n: [\n---\nx",
		"wrong access":           "---\naccess: anybody\n---\nx",
		"whose access is no":     "---\naccess: {a: b}\n---\nx",
		"is no date":             "---\nupdated: soon\n---\nx",
		"of more than 500000 ce": strings.Repeat("|a", 5000) + "\n" + strings.Repeat("|-", 5000) + "\n" + strings.Repeat("|x\n", 5000),
		"too deeply":             strings.Repeat(">", 10_000) + "x",
		"too complex to read":    archive(t, map[string]string{"xl/workbook.xml": "x", `xl\SharedStrings.xml`: strings.Repeat("<si><t>a</t></si>", 500_001) + noise()}),
		"packed more than a hu":  archive(t, map[string]string{"word/document.xml": strings.Repeat(" ", 2<<20)}),
	} {
		if pieces, err := knowledge.Cut(t.Context(), "a.md", data, 50); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, %v", why, pieces, err)
		}
	}
}

// TestAccessIsNotPassedOver: who may read it is written in a file in which that does not count.
func TestAccessIsNotPassedOver(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.txt", "a.html", "a"} {
		for _, end := range []string{"---\n", ""} {
			if pieces, err := knowledge.Cut(t.Context(), name, "---\ntitle: x\naccess: mia\n"+end+"secret", 50); err == nil || !strings.Contains(err.Error(), "name it .md") {
				t.Errorf("%s: %v, %v", name, pieces, err)
			}
		}
	}
}

// zeros is a document whose text has so many GB of zeros. said is how large it says it is.
func zeros(t *testing.T, said uint64) string {
	t.Helper()
	var once, out bytes.Buffer
	deflate, err := flate.NewWriter(&once, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deflate.Write(make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	if err := deflate.Flush(); err != nil {
		t.Fatal(err)
	}
	packed := slices.Concat(bytes.Repeat(once.Bytes(), 1280), []byte{3, 0}) // 5 GB
	w := zip.NewWriter(&out)
	e, err := w.CreateRaw(&zip.FileHeader{Name: "word/document.xml", Method: zip.Deflate, CompressedSize64: uint64(len(packed)), UncompressedSize64: said})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Write(packed); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestZipBomb(t *testing.T) { //nolint:paralleltest // it measures memory
	for _, said := range []uint64{5 << 30, 1000, 199 << 20} {
		bomb := zeros(t, said)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		pieces, err := knowledge.Cut(t.Context(), "a.docx", bomb, 50)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > 50<<20 {
			t.Errorf("said %d: %v, %v after %d bytes", said, pieces, err, used)
		}
	}
}

// TestPackedPage: a page that is larger than it may be is not parsed, however small the file is.
func TestPackedPage(t *testing.T) { //nolint:paralleltest // it measures memory
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	for range 32 {
		if _, err := w.Write(bytes.Repeat([]byte("(a)Tj "), 1<<20/6)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := pdf(1, packed.String())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	pieces, err := knowledge.Cut(t.Context(), "a.pdf", file, 50)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), "too complex") || used > 250<<20 {
		t.Errorf("%d pieces, %v after %d bytes", len(pieces), err, used)
	}
}

// measured reads a file, and returns what of it was found and how many MB that took.
func measured(t *testing.T, name, data string) (text string, megabytes uint64, err error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	pieces, err := knowledge.Cut(t.Context(), name, data, 100)
	runtime.ReadMemStats(&after)
	var all strings.Builder
	for _, p := range pieces {
		all.WriteString(p.Text + "\n")
	}
	return all.String(), (after.TotalAlloc - before.TotalAlloc) >> 20, err
}

// TestLargeTrees: a page whose tree would take gigabytes is refused before it does.
func TestLargeTrees(t *testing.T) { //nolint:paralleltest // it measures memory
	open := func(n int, of string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, of, i)
		}
		return b.String()
	}
	for name, page := range map[string]string{
		"many elements":       "<!doctype html>" + strings.Repeat("<p>x", 2_000_000),
		"open elements":       "<!doctype html><p>" + open(400, "<b id=%d>") + strings.Repeat("<p>x", 100_000),
		"behind foreign text": "<!doctype html><svg><plaintext></svg><p>" + open(400, "<b id=%d>") + strings.Repeat("<p>x", 100_000),
		"open attributes":     "<!doctype html><p>" + strings.Repeat("<b "+open(1000, "a%d ")+">", 500) + strings.Repeat("<p>x", 10_000),
		"closed again":        "<!doctype html><b " + open(32_000, "a%d ") + ">" + strings.Repeat("<div>", 490) + strings.Repeat("</b>", 10_000),
		"in Markdown":         "# Title\n\n<div><p>" + open(400, "<b id=%d>") + strings.Repeat("<p>x", 100_000),
	} {
		file := "a.html"
		if name == "in Markdown" {
			file = "a.md"
		}
		if _, took, err := measured(t, file, page); err == nil || took > 1000 { // too complex or, on a slow machine, too slow
			t.Errorf("%s: %v after %d MB", name, err, took)
		}
	}
	text, _, err := measured(t, "a.html", "<!doctype html><p>"+open(200, "<b id=%d><font color=white>")+"unseen"+strings.Repeat("<p>x", 1000))
	if err != nil || strings.Contains(text, "seen") {
		t.Errorf("%v: %.100s", err, text)
	}
}

// TestLongLists take memory by their length, however many rows or items they have.
func TestLongLists(t *testing.T) { //nolint:paralleltest // it measures memory
	const most = 20_000
	each := func(before, after string) string {
		var b strings.Builder
		random := rand.New(rand.NewPCG(1, 2)) // else it is packed like an attack
		for range most {
			fmt.Fprintf(&b, "%ssome %d words%s", before, random.IntN(1_000_000), after)
		}
		return b.String()
	}
	for name, data := range map[string]string{
		"a.html": "<html><table>" + each("<tr><td>", "") + "</table>",
		"b.docx": docx(t, "<w:tbl>"+each("<w:tr><w:tc><w:p><w:r><w:t>", "</w:t></w:r></w:p></w:tc></w:tr>")+"</w:tbl>"),
		"c.docx": docx(t, each("<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>", "</w:t></w:r></w:p>")),
		"d.md":   "| head |\n|---|\n" + each("| ", " |\n"),
	} {
		text, took, err := measured(t, name, data)
		if rows := strings.Count(text, "some "); err != nil || rows < most || took > 400 {
			t.Errorf("%s: %d rows of %d, %v after %d MB", name, rows, most, err, took)
		}
	}
}

// TestAReaderThatEndsLate is not stuck: its goroutine is gone, so files behind it are read.
func TestAReaderThatEndsLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	long := pdf(1, strings.Repeat("BT /F1 12 Tf (a)Tj ET ", 600_000))
	if stuck, err := knowledge.Stuck(ctx, "a.pdf", long); stuck || err == nil || !strings.Contains(err.Error(), "took longer") {
		t.Errorf("stuck: %t, %v", stuck, err)
	}
}

// endless is XML that begins with a tag and never has another one. It counts what was read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	if e.read == 0 {
		copy(p, "<w:document>")
	}
	e.read += len(p)
	return len(p), nil
}

// TestEndlessText: the reader of a document gives up after two million characters without a tag, however much
// the archive still has.
func TestEndlessText(t *testing.T) {
	t.Parallel()
	e := &endless{}
	if err := knowledge.ReadXML(e); err == nil || e.read > 2_100_000 {
		t.Errorf("%v after %d bytes", err, e.read)
	}
}

// TestADamagedFile does not keep its neighbours out.
func TestADamagedFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good := func(text string) string { return pdf(1, "BT /F1 12 Tf 50 700 Td ("+text+") Tj ET") }
	report := b.add(map[string]string{"1.pdf": good("apples"), "2.pdf": "%PDF-1.4 and nothing else", "3.pdf": good("cherries")})
	want := []knowledge.NotTaken{{File: "2.pdf", Why: "is damaged: the reader of its format gave up"}}
	if diff := cmp.Diff(want, report.NotTaken); diff != "" || report.String() != "2 added, 1 not taken" {
		t.Error(report, diff)
	}
	if got := b.found(everyone, "apples cherries"); got != "1.pdf#1 3.pdf#1" {
		t.Errorf("found %s", got)
	}
}

// TestFilesOfTheWorld: files as programs write them, each with what a person would look for.
func TestFilesOfTheWorld(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"form.pdf":     {"Vacation policy", "Employees have 30 days of vacation.", "Ask your manager first."},
		"onlyform.pdf": {"Parking costs 12 euro a month."},
		"emf.docx":     nil,
		"quote.xlsx":   {"2026-03-10", "2026-10-03", "59.97", "84.97", "Contract 7"},
	} {
		content, err := os.ReadFile(filepath.Join("testdata", "files", name))
		if err != nil {
			t.Fatal(err)
		}
		pieces, err := knowledge.Cut(t.Context(), name, string(content), 1000)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all := fmt.Sprint(pieces)
		t.Log(name, all)
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("%s has no %q: %s", name, w, all)
			}
		}
	}
}

// TestCellsAsPeopleMeanThem: dates are in ISO form whatever the format shows, long numbers are whole, and a
// formula without a value is computed, or shown if it cannot be.
func TestCellsAsPeopleMeanThem(t *testing.T) {
	t.Parallel()
	f := excelize.NewFile()
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	style := func(cell string, format int, custom string) {
		s := &excelize.Style{NumFmt: format}
		if custom != "" {
			s.CustomNumFmt = &custom
		}
		id, err := f.NewStyle(s)
		if err := errors.Join(err, f.SetCellStyle("Sheet1", cell, cell, id)); err != nil {
			t.Fatal(err)
		}
	}
	formula := func(cell, text string) {
		if err := f.SetCellFormula("Sheet1", cell, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.SetSheetRow("Sheet1", "A1", &[]any{day, day, day.Add(14*time.Hour + 30*time.Minute), 45.5, 46091, 123456789012, 0.25, 12345678901234, 3}); err != nil {
		t.Fatal(err)
	}
	style("A1", 14, "")
	style("B1", 0, "dd/mm/yy;@")
	style("C1", 22, "")
	style("D1", 0, "[Red]0.0 \"days\"")
	style("E1", 0, "d mmm yyyy")
	style("G1", 9, "")
	formula("J1", "I1*2")
	formula("K1", `HYPERLINK("https://a.example","the link")`)
	formula("L1", "NOSUCHFUNCTION(I1)")
	data, err := f.WriteToBuffer()
	if err != nil {
		t.Fatal(err)
	}
	got, err := knowledge.Cut(t.Context(), "a.xlsx", data.String(), 100)
	want := "| 2026-03-10 | 2026-03-10 | 2026-03-10 14:30 | 45.5 days | 2026-03-10 | 123456789012 | 25% | 12345678901234 | 3 | 6 | the link | =NOSUCHFUNCTION(I1) |"
	if err != nil || len(got) != 1 || got[0].Text != want {
		t.Errorf("%v\ngot  %v\nwant %s", err, got, want)
	}
}

// TestWhatIsBesideTheText: notes of a document are read, and its other parts are counted.
func TestWhatIsBesideTheText(t *testing.T) {
	t.Parallel()
	note := func(kind, text string) string {
		return `<w:` + kind + `s xmlns:w="w"><w:` + kind + ` w:type="separator"><w:p/></w:` + kind + `><w:` + kind + ` w:id="2"><w:p><w:r><w:t>` + text + `</w:t></w:r></w:p></w:` + kind + `></w:` + kind + `s>`
	}
	document := archive(t, map[string]string{
		"word/document.xml":   `<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>Text</w:t></w:r></w:p></w:body></w:document>`,
		"word/footnotes.xml":  note("footnote", "Below."),
		"word/endnotes.xml":   note("endnote", "At the end."),
		"word/media/a.png":    "x",
		"word/media/b.emf":    strings.Repeat("\x00", 3<<20),
		"word/charts/c.xml":   "<c/>",
		"word/embeddings/d.x": "x",
	})
	got, err := knowledge.Cut(t.Context(), "a.docx", document, 100)
	if want := []knowledge.Piece{{Path: "", Text: "Text"}, {Path: "Footnotes", Text: "Below."}, {Path: "Endnotes", Text: "At the end."}}; err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v %v", got, err)
	}
	text, err := knowledge.Files{}.Read(t.Context(), "", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if shown, _, _, _ := (knowledge.Files{}).Show(text, "?", 100); !strings.HasPrefix(shown, "[Not read of this file: 2 pictures, 1 chart, 1 embedded file.]") {
		t.Error(shown)
	}
}
