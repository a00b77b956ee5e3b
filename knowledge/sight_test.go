package knowledge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/models"
)

// scanned is a PDF of which each page is a JPEG of that shade, or a text.
func scanned(t *testing.T, pages ...any) string {
	t.Helper()
	var b bytes.Buffer
	object := func(n int, text string) { fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", n, text) }
	stream := func(head, body string) string {
		return fmt.Sprintf("<< %s /Length %d >>\nstream\n%s\nendstream", head, len(body), body)
	}
	b.WriteString("%PDF-1.7\n")
	object(1, "<< /Type /Catalog /Pages 2 0 R >>")
	object(3, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	kids := ""
	for i, p := range pages {
		n := 10 * (i + 1)
		kids += fmt.Sprintf("%d 0 R ", n)
		commands := "q 600 0 0 800 0 0 cm /Im Do Q"
		if shade, ok := p.(int); ok {
			picture := image.NewGray(image.Rect(0, 0, 600, 800))
			for at := range picture.Pix {
				picture.Pix[at] = color.Gray{uint8(shade)}.Y //nolint:gosec // small
			}
			var packed bytes.Buffer
			if err := jpeg.Encode(&packed, picture, nil); err != nil {
				t.Fatal(err)
			}
			object(n+2, stream("/Subtype /Image /Width 600 /Height 800 /Filter /DCTDecode", packed.String()))
		} else {
			commands = fmt.Sprintf("BT /F 12 Tf 50 700 Td (%s) Tj ET", p)
		}
		object(n, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Contents %d 0 R /Resources << /Font << /F 3 0 R >> /XObject << /Im %d 0 R >> >> >>", n+1, n+2))
		object(n+1, stream("", commands))
	}
	object(2, fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d /MediaBox [0 0 600 800] >>", kids, len(pages)))
	b.WriteString("trailer\n<< /Root 1 0 R >>\n")
	return b.String()
}

// eye is a model that reads pages.
type eye struct {
	answer func(shade int) (string, error)
	asked  []int  // shades
	told   string // before
}

func (e *eye) Complete(_ context.Context, req *models.Request) (*models.Response, error) {
	m := req.Messages[len(req.Messages)-1]
	picture, _, err := image.Decode(bytes.NewReader(m.Pictures[0].Data))
	if err != nil {
		return nil, err
	}
	shade, _, _, _ := picture.At(300, 400).RGBA()
	e.asked = append(e.asked, int(shade>>8))
	text, err := e.answer(int(shade >> 8))
	if err != nil {
		return nil, err
	}
	return &models.Response{Text: text, Finish: "stop", Usage: models.Usage{Prompt: 1000, Completion: 20}}, nil
}

func (e *eye) sight(most int) *knowledge.Sight {
	return &knowledge.Sight{Model: e, MaxPages: most, Before: func(_ context.Context, pages, prompt, completion int) {
		e.told += fmt.Sprintf("%d pages, %d in, %d out, %d asked; ", pages, prompt, completion, len(e.asked))
	}}
}

// helper is a helper whose program is this test's binary, or another command.
func helper(t *testing.T, command ...string) *knowledge.Helper {
	t.Helper()
	if len(command) == 0 {
		command = []string{os.Args[0], asHelper}
	}
	h, err := knowledge.NewHelper(knowledge.HelperConfig{Command: command, MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func says(int) (string, error) { return "The warranty lasts two years.", nil }

// TestSight: a model reads pages that are pictures, each once, after it was told what that takes, and their text is
// found at its page.
func TestSight(t *testing.T) {
	t.Parallel()
	helpers := []*knowledge.Helper{nil}
	if !ci.UnderRace { // a child has too little memory for the detector
		helpers = append(helpers, helper(t))
	}
	for _, h := range helpers {
		b, e := setup(t), &eye{answer: says}
		b.files(map[string]string{"a.pdf": scanned(t, "First page", 100, "Last page"), "b.pdf": scanned(t, 100, 200), "c.pdf": scanned(t, 100)})
		b.Index = b.index(knowledge.IndexConfig{Sight: e.sight(0), Helper: h})
		report := b.add(nil)
		if report.String() != "3 added, 2 pages read by the model" || report.Used.Total() != 2040 || len(report.Partly) > 0 {
			t.Errorf("%s %+v", report, report)
		}
		if len(e.asked) != 2 || e.told != "2 pages, 1642 in, 1600 out, 0 asked; " {
			t.Errorf("%v %s", e.asked, e.told)
		}
		passages, err := b.Search(t.Context(), knowledge.Query{Text: "warranty", Caller: everyone})
		if err != nil || len(passages) != 4 {
			t.Fatal(passages, err)
		}
		for _, p := range passages {
			if strings.HasSuffix(p.ID, "a.pdf#2") && p.Path != "page 2" {
				t.Errorf("%+v", p)
			}
		}
		report = b.add(map[string]string{"a.pdf": scanned(t, "Another first page", 100)})
		if report.String() != "1 changed, 2 kept" || len(e.asked) != 2 {
			t.Errorf("%s %v", report, e.asked)
		}
		other := &eye{answer: says} // of another process, in an index that lost its documents
		b.Index = b.index(knowledge.IndexConfig{Sight: other.sight(0), Helper: h})
		report = b.add(nil)
		if report.String() != "3 kept" || len(other.asked) > 0 {
			t.Errorf("%s %v", report, other.asked)
		}
		// What is gone is forgotten with its texts.
		if _, err := b.Remove(t.Context(), "handbook"); err != nil {
			t.Fatal(err)
		}
		b.add(nil)
		if len(other.asked) != 2 {
			t.Errorf("%v", other.asked)
		}
	}
}

// TestSightKeepsTexts: what was read of a scan stays known if its file changes and is first added without a Sight.
func TestSightKeepsTexts(t *testing.T) {
	t.Parallel()
	b, e := setup(t), &eye{answer: says}
	blind, seeing := b.Index, b.index(knowledge.IndexConfig{Sight: e.sight(0)})
	b.Index = seeing
	b.add(map[string]string{"a.pdf": scanned(t, 50), "b.pdf": scanned(t, "Text"), "c.pdf": scanned(t, "More")})
	b.Index = blind
	b.add(map[string]string{"a.pdf": scanned(t, 50) + "\n"})
	b.Index = seeing
	report := b.add(nil)
	if report.String() != "1 added, 2 kept" || len(e.asked) != 1 {
		t.Errorf("%s %v", report, e.asked)
	}
}

// TestSightLater: what was added before somebody turned it on is read, and of many pages as many as a run may send,
// until all are read.
func TestSightLater(t *testing.T) {
	t.Parallel()
	b, e := setup(t), &eye{answer: says}
	if report := b.add(map[string]string{"a.pdf": scanned(t, "Text", 50, 100, 150)}); len(report.Partly) != 1 ||
		report.Partly[0].Why != "was taken without 3 pages that are pictures" {
		t.Fatal(report)
	}
	b.Index = b.index(knowledge.IndexConfig{Sight: e.sight(2)})
	for _, want := range []string{
		"1 changed, 2 pages read by the model, 1 taken in part", "1 changed, 1 page read by the model", "1 kept",
	} {
		report := b.add(nil)
		if report.String() != want {
			t.Errorf("%s, want %s", report, want)
		}
	}
	if len(e.asked) != 3 {
		t.Error(e.asked)
	}
}

// TestSightFails: pages that the model cannot read are counted as pictures, and the index is whole. A page that it
// refuses comes again after a day; where it is away, it gets no further page and all of them the next time.
func TestSightFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		away := &models.Error{Kind: models.Unavailable, Err: errors.New("no such host")}
		refuses := &models.Error{Kind: models.Filtered}
		e := &eye{answer: func(int) (string, error) { return "", away }}
		b.Index = b.index(knowledge.IndexConfig{Sight: e.sight(0)})
		report := b.add(map[string]string{"a.pdf": scanned(t, "Text", 50, 100), "b.pdf": scanned(t, 150)})
		if report.String() != "1 added, 1 taken in part, 1 not taken" || len(e.asked) != 1 || b.found(everyone, "text") == "" {
			t.Errorf("%s %v", report, e.asked)
		}
		if report.Partly[0].Why != "was taken without 2 pages that are pictures" || !strings.Contains(report.NotTaken[0].Why, "as a scan has") {
			t.Errorf("%+v", report)
		}
		e.answer = func(shade int) (string, error) {
			if shade == 50 {
				return "", refuses
			}
			return says(shade)
		}
		for _, step := range []struct {
			want  string
			asked int
		}{
			{"1 added, 1 changed, 2 pages read by the model, 1 taken in part", 4}, {"2 kept", 4},
		} {
			report = b.add(nil)
			if report.String() != step.want || len(e.asked) != step.asked {
				t.Errorf("%s %v, want %+v", report, e.asked, step)
			}
		}
		time.Sleep(25 * time.Hour)
		e.answer = func(int) (string, error) { return "(no text)", nil }
		report = b.add(nil)
		if report.String() != "1 changed, 1 kept, 1 page read by the model" || len(e.asked) != 5 {
			t.Errorf("%s %v", report, e.asked)
		}
	})
}
