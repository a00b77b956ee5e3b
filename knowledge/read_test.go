package knowledge_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/testing/ci"
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

// sheets makes a workbook: cells look as in styles, and each sheet has rows, by the sheet's name and state.
func sheets(t *testing.T, styles string, rows ...[2]string) string {
	t.Helper()
	const space = `xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"`
	entries := map[string]string{
		"[Content_Types].xml": `<Types/>`,
		"xl/styles.xml":       "<styleSheet " + space + ">" + styles + "</styleSheet>",
	}
	list, relations := "", ""
	for i, one := range rows {
		name, state, _ := strings.Cut(one[0], ":")
		list += fmt.Sprintf(`<sheet name="%s" sheetId="%d" r:id="r%d" state="%s"/>`, name, i+1, i+1, state)
		relations += fmt.Sprintf(`<Relationship Id="r%d" Target="worksheets/sheet%d.xml"/>`, i+1, i+1)
		entries[fmt.Sprintf("xl/worksheets/sheet%d.xml", i+1)] = "<worksheet " + space + ">" + one[1] + "</worksheet>"
	}
	entries["xl/workbook.xml"] = "<workbook " + space + "><sheets>" + list + "</sheets></workbook>"
	entries["xl/_rels/workbook.xml.rels"] = "<Relationships>" + relations + "</Relationships>"
	return archive(t, entries)
}

func xlsx(t *testing.T) string {
	t.Helper()
	row := func(attributes, part, price string) string {
		return `<row ` + attributes + `><c t="inlineStr"><is><t>` + part + `</t></is></c><c t="inlineStr"><is><t>secret</t></is></c><c t="str"><v>` + price + `</v></c></row>`
	}
	return sheets(t, "", [2]string{
		"Sheet1",
		`<cols><col min="2" max="2" hidden="1"/></cols><sheetData>` + row("", "Part", "Price") + row("", "Bolt", "3") + `<row/>` + row(`hidden="true"`, "Cog", "4") + row("", "Nut", "2.5") + `</sheetData>`,
	}, [2]string{"Hidden:hidden", `<sheetData>` + row("", "secret", "secret") + `</sheetData>`}, [2]string{"Deeper:veryHidden", `<sheetData>` + row("", "secret", "secret") + `</sheetData>`})
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
		"characters of text":     sheets(t, "", [2]string{"A", `<cols><col min="-5" max="99999999" hidden="1"/></cols><sheetData><row><c><f>` + strings.Repeat(strings.Repeat("1+", 5000)+"<x/>", 1000) + `</f></c></row></sheetData>` + noise()}),
		"too complex to read":    archive(t, map[string]string{"xl/workbook.xml": "x", `xl\SharedStrings.xml`: strings.Repeat("<si><t>a</t></si>", 500_001) + noise()}),
		"packed more than a hu":  archive(t, map[string]string{"word/document.xml": strings.Repeat(" ", 2<<20)}),
	} {
		synctest.Test(t, func(t *testing.T) { // where reading takes no time, however busy the machine is
			if pieces, err := knowledge.Cut(t.Context(), "a.md", data, 50); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, %v", why, pieces, err)
			}
		})
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
	ci.NotUnderRace(t, "it reads thousands of files")
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
		"quote.xlsx":   {"2026-03-10", "2026-10-03", "=B2*C2", "=SUM(D2:D3)", "Contract 7"},                                 // of openpyxl
		"prices.xlsx":  {"plain bold rest", "TRUE", "a b", "link", "_x0041_ x", "| after an empty row |", "seen", "merged"}, // of XlsxWriter
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

// TestCellsAsPeopleMeanThem: dates are in ISO form whatever the format shows, long numbers are whole, and other
// numbers are as Excel shows them in English.
func TestCellsAsPeopleMeanThem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		format string // its number, or what it says
		value  string
		want   string
	}{
		{"0", "45.5", "45.5"},
		{"0", "0.30000000000000004", "0.3"},
		{"0", "1E-5", "0.00001"},
		{"0", "1.5E+300", "1.5E+300"},
		{"0", "123456789012", "123456789012"},
		{"0", "1.2345678901234E+13", "12345678901234"},
		{"0", "no number", "no number"},
		{"14", "46091", "2026-03-10"},
		{"14", "1", "1900-01-01"},
		{"14", "59", "1900-02-28"},
		{"14", "61", "1900-03-01"},
		{"14", "2958466", "2958466"},
		{"14", "-1", "-1"},
		{"22", "46091.604166666664", "2026-03-10 14:30"},
		{"31", "46091", "2026-03-10"},
		{"dd/mm/yy;@", "46091", "2026-03-10"},
		{"d mmm yyyy", "46091", "2026-03-10"},
		{`d" de "mmmm" de "yyyy`, "46091", "2026-03-10"},
		{`yyyy"年"m"月"d"日"`, "46091", "2026-03-10"},
		{`[$-F800]dddd\,\ mmmm\ dd\,\ yyyy`, "46091", "2026-03-10"},
		{"mmmm", "46091", "2026-03-10"},
		{"20", "0.604166666666667", "14:30"},
		{"h:mm:ss AM/PM", "0.604166666666667", "14:30:00"},
		{"[h]:mm", "1.25", "30:00"},
		{"1", "2.5", "3"},
		{"2", "2.675", "2.68"},
		{"4", "-1234.567", "-1,234.57"},
		{"9", "0.25", "25%"},
		{"9", "0.145", "15%"},
		{"0.0 %", "0.145", "14.5 %"},
		{"11", "1234.5", "1.23E+03"},
		{"[Red]0.0 \"days\"", "45.5", "45.5 days"},
		{`#,##0.00\ [$€-407]`, "1234.5", "1,234.50 €"},
		{`$#,##0.00`, "-5", "-$5.00"},
		{`_(* #,##0.00_);_(* \(#,##0.00\);_(* "-"??_);_(@_)`, "-5", "(5.00)"},
		{`_(* #,##0.00_);_(* \(#,##0.00\);_(* "-"??_);_(@_)`, "0", "-"},
		{"#,##0,", "1234567", "1,235"},
		{"00000", "1067", "01067"},
		{"000-00-0000", "12345678", "012-34-5678"},
		{"(000) 000-0000", "5551234567", "(555) 123-4567"},
		{"+00 (0) 000", "491234", "+49 (1) 234"},
		{"0.##", "2.5", "2.5"},
		{"0.##", "2", "2"},
		{"#", "0", "0"},
		{"0.0", "-0.01", "0.0"},
		{`"yes";"no";"none"`, "0", "none"},
		{"# ?/?", "0.5", "0.5"},
		{"[>=100]0;0.0", "2.675", "2.675"},
		{`"`, "7", "7"},
		{"[", "7", "7"},
		{`\`, "7", "7"},
		{"_", "7", "7"},
	} {
		t.Run(tt.format+" "+tt.value, func(t *testing.T) {
			t.Parallel()
			id := tt.format
			styles := ""
			if _, err := strconv.Atoi(tt.format); err != nil || len(tt.format) > 2 {
				id = "164"
				var code strings.Builder
				_ = xml.EscapeText(&code, []byte(tt.format)) // of a Builder
				styles = `<numFmts><numFmt numFmtId="164" formatCode="` + code.String() + `"/></numFmts>`
			}
			styles += `<cellStyleXfs><xf numFmtId="10"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="` + id + `"/></cellXfs>`
			data := sheets(t, styles, [2]string{"Sheet1", `<sheetData><row r="1"><c r="A1" s="1"><v>` + tt.value + `</v></c></row></sheetData>`})
			got, err := knowledge.Cut(t.Context(), "a.xlsx", data, 100)
			if err != nil || len(got) != 1 || got[0].Text != "| "+tt.want+" |" {
				t.Errorf("%v, got %v, want %s", err, got, tt.want)
			}
		})
	}
}

// TestFormulas: a formula is shown where its cell has no value. Cells share a formula by the text of the first.
func TestFormulas(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ rows, want string }{
		"no value":                       {`<row r="1"><c r="A1"><v>1</v></c><c r="B1"><f>SUM(A1:A3)</f></c></row>`, "| 1 | =SUM(A1:A3) |"},
		"a value":                        {`<row r="1"><c r="A1"><f>1+1</f><v>2</v></c></row>`, "| 2 |"},
		"a text":                         {`<row r="1"><c r="A1" t="str"><f>"a"&amp;"b"</f><v>ab</v></c></row>`, "| ab |"},
		"an empty value":                 {`<row r="1"><c r="A1"><v>1</v></c><c r="B1" t="str"><f>IF(A1=1,"",2)</f><v></v></c></row>`, "| 1 |"},
		"an error":                       {`<row r="1"><c r="A1" t="e"><f>1/0</f><v>#DIV/0!</v></c></row>`, "| #DIV/0! |"},
		"an empty value that is no text": {`<row r="1"><c r="A1"><f>1+1</f><v></v></c></row>`, "| =1+1 |"}, // as openpyxl writes it
		"shared": {
			`<row r="2"><c r="B2"><f t="shared" ref="B2:C3" si="0">A2*A$1+$A2+LOG10(A2)+Sheet1!A2+'A2'!A2&amp;"A2"&amp;A1.B</f></c><c r="C2"><f t="shared" si="0"/></c></row>
			 <row r="3"><c r="B3"><f t="shared" si="0"/></c><c r="C3"><f t="shared" si="0"/><v>7</v></c></row>`,
			`|  | =A2*A$1+$A2+LOG10(A2)+Sheet1!A2+'A2'!A2&"A2"&A1.B | =B2*B$1+$A2+LOG10(B2)+Sheet1!B2+'A2'!B2&"A2"&A1.B |
|  | =A3*A$1+$A3+LOG10(A3)+Sheet1!A3+'A2'!A3&"A2"&A1.B | 7 |`,
		},
		"a value before":          {`<row r="1"><c r="A1"><v>2</v><f>1+1</f></c></row>`, "| 2 |"},
		"more in a cell":          {`<row r="1"><c r="A1"><extLst><f>no</f></extLst><f>1+<x>1</x></f></c><c r="B1"><v>5</v></c></row>`, "| =1+1 | 5 |"},
		"how it is pronounced":    {`<row r="1"><c r="A1" t="inlineStr"><is><r><t>課</t></r><r><t>きく</t></r><rPh><t>カ</t></rPh></is></c></row>`, "| 課きく |"},
		"shared, off the sheet":   {`<row r="1"><c r="B2"><f t="shared" si="0">A1</f></c></row><row r="3"><c r="A3"><f t="shared" si="0"/></c></row>`, "|  | =A1 |\n| =#REF! |"},
		"a cell far off":          {`<row r="1"><c r="A1"><v>1</v></c><c r="CZ1"><v>2</v></c><c r="XFD1"><v>3</v></c></row>`, "| 1 | CZ: 2 | XFD: 3 |"},
		"shared, without a first": {`<row r="1"><c r="A1"><f t="shared" si="9"/></c></row>`, "| = |"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := knowledge.Cut(t.Context(), "a.xlsx", sheets(t, "", [2]string{"Sums", "<sheetData>" + tt.rows + "</sheetData>"}), 1000)
			if err != nil || len(got) != 1 || got[0].Text != tt.want {
				t.Errorf("%v\ngot  %v\nwant %s", err, got, tt.want)
			}
		})
	}
}

// TestListNumbers: items and headings of Word have the numbers that people see, which are only rules in the file.
func TestListNumbers(t *testing.T) {
	t.Parallel()
	level := func(n int, format, text string) string {
		return fmt.Sprintf(`<w:lvl w:ilvl="%d"><w:start w:val="1"/><w:numFmt w:val="%s"/><w:lvlText w:val="%s"/></w:lvl>`, n, format, text)
	}
	item := func(list, level int, text string) string {
		return fmt.Sprintf(`<w:p><w:pPr><w:numPr><w:ilvl w:val="%d"/><w:numId w:val="%d"/></w:numPr></w:pPr><w:r><w:t>%s</w:t></w:r></w:p>`, level, list, text)
	}
	heading := func(style, text string) string {
		return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/></w:pPr><w:r><w:t>` + text + `</w:t></w:r></w:p>`
	}
	document := archive(t, map[string]string{
		"word/document.xml": `<w:document xmlns:w="w"><w:body>` + heading("H1", "Scope") + item(1, 0, "one") + item(1, 1, "deeper") + item(1, 1, "again") + item(1, 0, "two") + item(1, 2, "deepest") +
			item(2, 0, "dot") + item(0, 0, "none") + heading("H1", "Terms") + heading("H2", "Rent") + heading("H2", "Deposit") + item(3, 0, "anew") + item(1, 0, "goes on") + item(9, 0, "unknown") +
			`</w:body></w:document>`,
		"word/numbering.xml": `<w:numbering xmlns:w="w"><w:abstractNum w:abstractNumId="0">` + level(0, "decimal", "%1.") + level(1, "lowerLetter", "%2)") + level(2, "upperRoman", "%1.%2.%3") + `</w:abstractNum>` +
			`<w:abstractNum w:abstractNumId="1">` + level(0, "bullet", "\u2022") + `</w:abstractNum><w:abstractNum w:abstractNumId="2">` + level(0, "decimal", "§ %1") + level(1, "decimal", "%1.%2") + `</w:abstractNum>` +
			`<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="4"><w:abstractNumId w:val="2"/></w:num>` +
			`<w:num w:numId="3"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num></w:numbering>`,
		"word/styles.xml": `<w:styles xmlns:w="w"><w:style w:styleId="H1"><w:name w:val="heading 1"/><w:pPr><w:numPr><w:numId w:val="4"/></w:numPr></w:pPr></w:style>` +
			`<w:style w:styleId="H2"><w:name w:val="heading 2"/><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="4"/></w:numPr></w:pPr></w:style></w:styles>`,
	})
	got, err := knowledge.Cut(t.Context(), "a.docx", document, 1000)
	want := []knowledge.Piece{
		{Path: "§ 1 Scope", Text: "1. one\na) deeper\nb) again\n2. two\n2.a.I deepest\n- dot\n\nnone"},
		{Path: "§ 2 Terms › 2.1 Rent"},
		{Path: "§ 2 Terms › 2.2 Deposit", Text: "7. anew\n8. goes on\n- unknown"},
	}
	want = slices.DeleteFunc(want, func(p knowledge.Piece) bool { return p.Text == "" })
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
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
