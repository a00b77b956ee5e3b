package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
)

// channel has attachments by their address.
type channel map[string][]byte

func (c channel) Download(_ context.Context, a activity.Attachment, _ int64) (content []byte, contentType string, err error) {
	content, ok := c[a.ContentURL]
	if !ok {
		err = errors.New("there is no such file")
	}
	return content, "", err
}

// reader reads any file as it is.
type reader struct{}

func (reader) Read(_ context.Context, _ string, content []byte) ([]byte, error) { return content, nil }

func (reader) Show(text []byte, _ string, _ int) (shown string, looked, of int, pages bool) {
	return string(text), 1, 1, false
}

type bundle struct {
	*files.Files
	queue        state.Key
	conversation *state.Scope
}

func setup(t *testing.T, c channel) bundle {
	t.Helper()
	store, err := state.Open(t.Context(), "", state.Config{MaxBytes: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return bundle{
		files.New(files.Config{
			Attachments: files.Attachments{Shown: true, Files: reader{}}, Store: store, Channel: c, Cause: error.Error,
		}),
		state.ConversationKey("msteams", "bot", "c"), state.NewScope(),
	}
}

// message is one of a turn of its own.
func (b bundle) message(turn, text string, attachments ...activity.Attachment) files.Message {
	a := &activity.Activity{Type: activity.Message, Text: text, Attachments: attachments}
	a.Conversation.ConversationType = "personal"
	return files.Message{
		Turn: turn, Queue: b.queue, Activity: a, Text: files.Said(a), Conversation: b.conversation,
		Translate: func(sentence texts.Text, args ...any) string { return fmt.Sprintf(string(sentence), args...) },
	}
}

func TestContentIsKeptInParts(t *testing.T) {
	t.Parallel()
	b, content := setup(t, nil), bytes.Repeat([]byte("abc"), 5000)
	parts := b.Parts(len(content))
	if parts != 5 {
		t.Errorf("%d parts", parts)
	}
	if err := b.Put(t.Context(), b.queue, "f", content, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get(t.Context(), b.queue, "f", parts); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for range 2 { // it may be gone already
		if err := b.Delete(t.Context(), b.queue, "f", parts); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := b.Get(t.Context(), b.queue, "f", parts); !errors.Is(err, files.ErrGone) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestTextsAreTakenKeptAndForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t, channel{"/a.txt": []byte("alpha")})
	m := b.message("t1", "Read this",
		activity.Attachment{ContentType: "audio/mpeg", Name: "lost.mp3", ContentURL: "/lost"},
		activity.Attachment{ContentType: "text/plain", Name: `c:\a.txt`, ContentURL: "/a.txt"},
		activity.Attachment{ContentType: "image/png", ContentURL: "/p.png"})
	r, err := b.Take(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if want := "Read this\n[left out: \"lost.mp3\"]\n[file: \"a.txt\"]\n[left out]"; r.Text != want {
		t.Errorf("got  %q\nwant %q", r.Text, want)
	}
	if want := "I couldn't open `lost.mp3`.\n\nSorry, I can't look at pictures."; r.Note != want || r.Nothing {
		t.Errorf("note %q, nothing %t", r.Note, r.Nothing)
	}
	if len(r.Attached) != 1 || r.Attached[0].Text != "alpha" || !r.Taken.Quote {
		t.Errorf("attached %+v, taken %+v", r.Attached, r.Taken)
	}
	b.Keep(t.Context(), m, r)
	m.Before, m.Text = r.Taken, r.Text // another process takes the turn over
	if r, err := b.Take(t.Context(), m); err != nil || r.Text != m.Text || r.Note != "" || len(r.Attached) != 1 {
		t.Errorf("taken over: %+v, %v", r, err)
	}
	if r, err := b.Recall(t.Context(), b.message("t2", "And now?")); err != nil || len(r.Attached) != 1 || !r.Taken.Quote {
		t.Errorf("recalled: %+v, %v", r, err)
	}
	if n := files.Kept(b.conversation); n != 1 {
		t.Errorf("%d texts are kept", n)
	}
	if err := b.Forget(t.Context(), b.queue, b.conversation); err != nil || files.Kept(b.conversation) != 0 {
		t.Errorf("%d texts are kept, %v", files.Kept(b.conversation), err)
	}
	if r, err := b.Recall(t.Context(), b.message("t3", "And now?")); err != nil || r.Taken != nil || len(r.Attached) != 0 {
		t.Errorf("recalled: %+v, %v", r, err)
	}
}

func TestAMessageOfWhichNothingIsTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	m := b.message("t", "", activity.Attachment{ContentType: "text/plain", Name: "a.txt", ContentURL: "/a.txt"})
	if !files.Come(m.Activity) || !strings.HasPrefix(m.Text, "[sent without text: ") {
		t.Fatalf("the text is %q", m.Text)
	}
	if r, err := b.Take(t.Context(), m); err != nil || !r.Nothing || r.Note != "I couldn't open `a.txt`." {
		t.Errorf("%+v, %v", r, err)
	}
}
