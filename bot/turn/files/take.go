package files

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/picture"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/state"
)

// Message is a message whose attachments are to be taken, and its turn.
type Message struct {
	Turn         string    // the id of the turn
	Queue        state.Key // of the conversation
	Activity     *activity.Activity
	Text         string       // what the turn plans for so far
	Conversation *state.Scope // knows of the texts that are kept; nil: none are
	// Before is what an earlier process took of this message; nil: nothing yet.
	Before    *Taken
	Translate func(sentence texts.Text, args ...any) string
}

// Taken is what a record knows of what came with its message.
type Taken struct {
	// Lines are those in the turn's text, by the number of the attachment.
	Lines []string `json:"lines,omitempty"`
	Sent  int      `json:"sent,omitempty"`  // messages about it, which the turn counts
	Quote bool     `json:"quote,omitempty"` // the model sees what others may have written
}

// Result is what was taken. Have moderation judge Heard and Attached before anybody sees them.
type Result struct {
	Taken    *Taken   // for the record; nil: nothing was taken
	Text     string   // of the turn: what the person wrote, what was heard, and a line for each attachment
	Heard    []string // in voice messages
	Attached []actions.Attached
	// Note is what the person is to know first: what was heard, and what was left out and why. "": nothing.
	Note string
	// Nothing says that the message has no words and nothing of it was taken: Note is all there is to say.
	Nothing bool

	read []readText
}

// Come reports whether anything comes with a message.
func Come(a *activity.Activity) bool {
	return slices.ContainsFunc(a.Attachments, func(at activity.Attachment) bool { return isPicture(at) || isFile(a, at) })
}

// Take fetches and reads what comes with a message. What it cannot take it leaves out, with a line of
// Text and a sentence of Note. Its error is that of ctx.
func (f *Files) Take(ctx context.Context, m Message) (Result, error) {
	t := &taking{Message: m, f: f, lines: make([]string, len(m.Activity.Attachments))}
	t.sees = f.cfg.Sees != nil && f.cfg.Sees(ctx)
	if m.Before != nil {
		copy(t.lines, m.Before.Lines)
	}
	for i := range m.Activity.Attachments {
		if err := t.take(ctx, i); err != nil {
			return Result{}, err
		}
	}
	if len(t.left) > 0 {
		t.note(tooManyFiles, strings.Join(t.left, ", "))
	}
	if len(t.heard) > 0 {
		t.notes = slices.Insert(t.notes, 0, t.Translate(heardThis, titles.Visible(strings.Join(t.heard, " "))))
	}
	if m.Before == nil {
		t.compose()
	}
	t.show()
	none := len(t.attached) == 0 && len(t.heard) == 0
	taken := &Taken{Lines: t.lines, Quote: !none}
	if m.Before != nil {
		taken.Sent, taken.Quote = m.Before.Sent, taken.Quote || m.Before.Quote
	}
	return Result{
		Taken: taken, Text: t.Text, Heard: t.heard, Attached: t.attached, Note: strings.Join(t.notes, "\n\n"),
		Nothing: m.Before == nil && none && sentWithoutText(Said(m.Activity)), read: t.read,
	}, nil
}

// Recall is Take for a message that nothing comes with: it takes the texts of files that came with
// earlier messages of the conversation and are kept, and the names of those that are not any more.
func (f *Files) Recall(ctx context.Context, m Message) (Result, error) {
	r := Result{Taken: m.Before, Text: m.Text}
	cfg := f.cfg.Attachments
	if cfg.Files == nil || cfg.Keep < 0 || !m.Activity.Conversation.Personal() || m.Conversation == nil {
		return r, nil
	}
	t := &taking{Message: m, f: f}
	for _, k := range slices.Backward(state.Peek[fileTexts](m.Conversation).Files) {
		text, err := []byte(nil), ErrGone
		if !k.over() {
			text, err = f.Get(ctx, m.Queue, k.ID, k.Parts)
		}
		switch {
		case err == nil && len(text) > 0:
			t.read = append(t.read, readText{k, earlier, text})
		case errors.Is(err, ErrGone):
			r.Attached = append(r.Attached, actions.Attached{Name: k.Name, Gone: true})
		}
	}
	if err := ctx.Err(); err != nil || len(t.read) == 0 {
		return r, err
	}
	t.show()
	taken := Taken{}
	if m.Before != nil {
		taken = *m.Before
	}
	taken.Quote = true
	r.Taken, r.Attached = &taken, append(t.attached, r.Attached...)
	return r, nil
}

const (
	maxPictures = 4
	maxSounds   = 4
	fileTokens  = 4000 // of all texts of files that a turn shows
	maxSound    = 25 << 20
	maxHeard    = 10_000 // bytes of what was heard
)

// The sentences about what is left out. %s is the file's name.
const (
	noSight        texts.Text = "Sorry, I can't look at pictures."
	tooManyFiles   texts.Text = "That's more than I can take from one message, so I left out %s."
	noPicture      texts.Text = "I left out %s, because it is not a PNG, JPEG, WebP or GIF picture."
	largePicture   texts.Text = "I left out %s: pictures can have up to 8 MB and 20 megapixels."
	damagedPicture texts.Text = "I left out %s, because it is damaged."
	linkExpired    texts.Text = "I can't open %s any more. Please send it again."
	notOpened      texts.Text = "I couldn't open %s."
	largeFile      texts.Text = "I can't read %s, because it is too large."
	emptyFile      texts.Text = "I can't read %s, because it has no text. It may be a scan."
	lockedFile     texts.Text = "I can't read %s, because it needs a password."
	damagedFile    texts.Text = "I can't read %s, because it is damaged."
	complexFile    texts.Text = "I can't read %s, because that would take too much time or memory."
	strangeFile    texts.Text = "I can't read %s. I read PDF, Word, Excel, HTML, Markdown and plain text."
	noFiles        texts.Text = "Sorry, I can't read files."
	noVoice        texts.Text = "Sorry, I can't listen to voice messages. Please write to me."
	largeSound     texts.Text = "I can't listen to %s, because it is larger than 25 MB."
	notHeard       texts.Text = "I couldn't make out what is said in %s."
	heardThis      texts.Text = "I heard: “%s”"
	lookedAtPages  texts.Text = "I looked at %s of %s pages of %s."
	lookedAtParts  texts.Text = "I looked at %s of %s parts of %s."
	notInChannels  texts.Text = "I can't read files or listen to voice messages here. Please send them to me in our personal chat."
	aPicture       texts.Text = "picture %s"
	aFile          texts.Text = "the file"
)

// taking is what was taken of a message so far. An attachment is an index into those of the activity.
type taking struct {
	Message // Text grows

	f        *Files
	sees     bool
	lines    []string // by the number of the attachment
	notes    []string
	heard    []string
	read     []readText
	attached []actions.Attached
	pictures int
	sounds   int
	left     []string // names of what is too many
}

// readText is the text of a file.
type readText struct {
	keptText
	at   int // number of the attachment, or earlier
	text []byte
}

// earlier stands for the attachment of an earlier message.
const earlier = -1

// take takes one attachment. Its error is that of ctx.
func (t *taking) take(ctx context.Context, i int) error {
	at, cfg := t.Activity.Attachments[i], t.f.cfg.Attachments
	personal, asPicture := t.Activity.Conversation.Personal(), isPicture(at)
	switch {
	case !asPicture && !personal:
		if isFile(t.Activity, at) {
			t.refuse(i, notInChannels)
		}
		return nil
	case !asPicture && !isFile(t.Activity, at):
		return nil
	case t.Before != nil && (t.lines[i] == "" || t.lines[i] == t.line(notTaken, i)): // "": it was heard
		return nil
	case asPicture && !t.sees:
		t.refuse(i, noSight)
		return nil
	case !asPicture && !t.sees && cfg.Files == nil && cfg.Transcribe == nil:
		t.refuse(i, noFiles)
		return nil
	case asPicture && t.pictures == maxPictures, !asPicture && (len(t.read) == maxTexts || t.sounds == maxSounds):
		t.leave(i)
		return nil
	}
	if asPicture {
		t.pictures++
	}
	if t.Before != nil && t.takeKept(ctx, i) {
		return nil
	}
	select {
	case t.f.holding <- struct{}{}:
		defer func() { <-t.f.holding }()
	case <-ctx.Done():
		return ctx.Err()
	}
	content, err := t.f.fetch(ctx, at, mostBytes(at))
	if err != nil {
		return t.notFetched(ctx, i, err)
	}
	sound := soundOf(content)
	switch {
	case asPicture:
		return t.takePicture(ctx, i, content)
	case picture.Is(content) && t.pictures == maxPictures:
		t.leave(i)
		return nil
	case picture.Is(content):
		t.pictures++
		return t.takePicture(ctx, i, content)
	case sound != "":
		return t.listen(ctx, i, sound, content)
	case cfg.Files == nil:
		t.refuse(i, noFiles)
		return nil
	}
	return t.readFile(ctx, i, content)
}

const (
	notTaken = "left out"
	gone     = "gone"
)

// line is a line of the turn's text about a file, such as [file: "a.pdf"].
func (t *taking) line(what string, i int) string {
	if name := shownName(t.Activity.Attachments[i]); name != "" {
		return fmt.Sprintf("[%s: %q]", what, name)
	}
	return "[" + what + "]"
}

// leave leaves out what is too many.
func (t *taking) leave(i int) { t.lines[i], t.left = t.line(notTaken, i), append(t.left, t.name(i)) }

// refuse tells the person that something is left out, and the model, too. A process that took the turn
// over says so only of what the first one had taken.
func (t *taking) refuse(i int, why texts.Text) {
	if strings.Contains(string(why), "%") {
		t.note(why, t.name(i))
	} else {
		t.note(why)
	}
	line := t.line(notTaken, i)
	if t.Before != nil {
		line = t.line(gone, i)
		t.Text = strings.Replace(t.Text, t.lines[i], line, 1)
	}
	t.lines[i] = line
}

func (t *taking) note(sentence texts.Text, args ...any) {
	if said := t.Translate(sentence, args...); !slices.Contains(t.notes, said) {
		t.notes = append(t.notes, said)
	}
}

// name is what people read of a file's name. No markdown in it takes effect.
func (t *taking) name(i int) string {
	if at := t.Activity.Attachments[i]; baseName(at.Name) != "" {
		return "`" + strings.ReplaceAll(titles.Visible(shownName(at)), "`", "\\u0060") + "`"
	}
	n := 0
	for _, other := range t.Activity.Attachments[:i+1] {
		if isPicture(other) {
			n++
		}
	}
	if n == 0 {
		return t.Translate(aFile)
	}
	return t.Translate(aPicture, fmt.Sprint(n))
}

// notFetched tells the person why a file cannot be opened.
func (t *taking) notFetched(ctx context.Context, i int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	zerolog.Ctx(ctx).Info().Str("error", t.f.cfg.Cause(err)).Msg("a file of the person was not fetched")
	at, why := t.Activity.Attachments[i], notOpened
	switch tooLarge := errors.Is(err, actions.ErrFileTooLarge); {
	case errors.Is(err, actions.ErrFileGone):
		why = linkExpired
	case tooLarge && isPicture(at):
		why = largePicture
	case tooLarge && mostBytes(at) == maxSound:
		why = largeSound
	case tooLarge:
		why = largeFile
	}
	t.refuse(i, why)
	return nil
}

func (t *taking) takePicture(ctx context.Context, i int, content []byte) error {
	if !t.sees {
		t.refuse(i, noSight)
		return nil
	}
	done, err := t.f.slot(ctx)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, pictureTime)
	p, err := picture.Read(within, content)
	slow := within.Err() != nil
	cancel()
	done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case err != nil && slow:
		t.refuse(i, complexFile)
	case errors.Is(err, picture.ErrTooLarge):
		t.refuse(i, largePicture)
	case errors.Is(err, picture.ErrDamaged):
		t.refuse(i, damagedPicture)
	case err != nil:
		t.refuse(i, noPicture)
	default:
		t.lines[i] = "[" + p.String() + "]"
		t.attached = append(t.attached, actions.Attached{
			Name: baseName(t.Activity.Attachments[i].Name), Picture: p.Data, Type: p.Type, About: p.String(),
		})
	}
	return nil
}

// slot waits until the process may read one more picture or file. Call done after that.
func (f *Files) slot(ctx context.Context) (done func(), err error) {
	select {
	case f.reading <- struct{}{}:
		return func() { <-f.reading }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listen has somebody write down what is said. In a turn that was taken over the text has that already.
func (t *taking) listen(ctx context.Context, i int, ending string, content []byte) error {
	cfg := t.f.cfg.Attachments
	switch {
	case cfg.Transcribe == nil:
		t.refuse(i, noVoice)
		return nil
	case len(content) > maxSound:
		t.refuse(i, largeSound)
		return nil
	}
	t.sounds++
	text, err := cfg.Transcribe(ctx, "voice."+ending, content)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text = spelling.Shorten(strings.TrimSpace(strings.ToValidUTF8(text, "")), maxHeard)
	if err != nil {
		zerolog.Ctx(ctx).Error().Str("error", t.f.cfg.Cause(err)).Msg("a voice message was not transcribed")
	}
	if err != nil || text == "" {
		t.refuse(i, notHeard)
		return nil
	}
	t.heard = append(t.heard, text)
	return nil
}

func (t *taking) readFile(ctx context.Context, i int, content []byte) error {
	done, err := t.f.slot(ctx)
	if err != nil {
		return err
	}
	name := baseName(t.Activity.Attachments[i].Name)
	text, err := t.f.cfg.Attachments.Files.Read(ctx, name, content)
	done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		zerolog.Ctx(ctx).Info().Err(err).Msg("a file of the person was not read")
		why := strangeFile
		switch {
		case errors.Is(err, actions.ErrFileTooLarge):
			why = largeFile
		case errors.Is(err, actions.ErrFileNoText):
			why = emptyFile
		case errors.Is(err, actions.ErrFileLocked):
			why = lockedFile
		case errors.Is(err, actions.ErrFileDamaged):
			why = damagedFile
		case errors.Is(err, actions.ErrFileTooComplex):
			why = complexFile
		}
		t.refuse(i, why)
		return nil
	}
	sum := sha256.Sum256(content)
	t.lines[i] = t.line("file", i)
	name = spelling.Shorten(strings.ToValidUTF8(name, "?"), 200)
	kept := keptText{Name: name, SHA256: hex.EncodeToString(sum[:]), Size: len(content), ID: t.keptID(i)}
	t.read = append(t.read, readText{kept, i, text})
	return nil
}

// keptID is the id of the text of an attachment. It is the same in each process that takes the message.
func (t *taking) keptID(i int) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\n%s\n%d", t.Queue, t.Turn, i)))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:12])
}

// takeKept takes the text of an attachment that an earlier process has kept, if it is still there.
func (t *taking) takeKept(ctx context.Context, i int) bool {
	all := state.Peek[fileTexts](t.Conversation).Files
	at := slices.IndexFunc(all, func(k keptText) bool { return k.ID == t.keptID(i) })
	if at < 0 {
		return false
	}
	text, err := t.f.Get(ctx, t.Queue, all[at].ID, all[at].Parts)
	if err != nil || len(text) == 0 {
		return false
	}
	t.read = append(t.read, readText{all[at], i, text})
	return true
}

// compose puts what was heard and the lines about files behind what the person wrote.
func (t *taking) compose() {
	var all []string
	if !sentWithoutText(t.Text) {
		all = append(all, t.Text)
	}
	all = append(all, t.heard...)
	for _, line := range t.lines {
		if line != "" {
			all = append(all, line)
		}
	}
	t.Text = cmp.Or(strings.Join(all, "\n"), t.Text)
}

// show gives the texts to the model, the first ones first, within the tokens that all of them may have.
func (t *taking) show() {
	left := fileTokens
	for n, r := range t.read {
		budget := left / (len(t.read) - n)
		shown, looked, of, pages := t.f.cfg.Attachments.Files.Show(r.text, t.Text, budget)
		left -= min(budget, len(shown)/4)
		t.attached = append(t.attached, actions.Attached{Name: r.Name, Text: shown})
		if looked == of || t.Before != nil || r.at == earlier {
			continue
		}
		sentence := lookedAtParts
		if pages {
			sentence = lookedAtPages
		}
		t.note(sentence, fmt.Sprint(looked), fmt.Sprint(of), t.name(r.at))
	}
}

func baseName(name string) string { return name[strings.LastIndexAny(name, `/\`)+1:] }

// shownName is a file's name on one line.
func shownName(at activity.Attachment) string {
	return spelling.OneLine(strings.ToValidUTF8(baseName(at.Name), "?"), 80)
}

// isPicture reports whether an attachment is a picture in the message.
func isPicture(at activity.Attachment) bool {
	return strings.HasPrefix(at.ContentType, "image/") && at.ContentURL != ""
}

// isFile reports whether an attachment of a message is a file, or says that there is one: the HTML of a message
// in a group of Teams does.
func isFile(a *activity.Activity, at activity.Attachment) bool {
	switch {
	case at.ContentType == fileInfo, at.ContentType == "reference", strings.HasPrefix(at.ContentType, "audio/"):
		return true
	case strings.HasPrefix(at.ContentType, "text/html"):
		return at.ContentURL == "" && a.FileMarks() > 0
	}
	known := strings.HasPrefix(at.ContentType, "application/vnd.microsoft.") || strings.HasSuffix(strings.ToLower(at.ContentType), "reference")
	return !isPicture(at) && at.ContentURL != "" && !known // such as a meeting or a message
}

// mostBytes is how large a file may be, by what its sender calls it.
func mostBytes(at activity.Attachment) int64 {
	sounds := []string{".mp3", ".m4a", ".wav", ".webm", ".ogg", ".oga", ".opus", ".flac", ".mpga", ".mp4"}
	switch {
	case isPicture(at):
		return picture.MaxBytes
	case strings.HasPrefix(at.ContentType, "audio/"), slices.Contains(sounds, strings.ToLower(path.Ext(at.Name))):
		return maxSound
	}
	return 0 // the channel's
}

// soundOf is the ending of a recording's format; "": the bytes are none.
func soundOf(content []byte) string {
	begins := func(magic string) bool { return bytes.HasPrefix(content, []byte(magic)) }
	switch {
	case begins("ID3"), len(content) > 1 && content[0] == 0xff && content[1]&0xe6 == 0xe2:
		return "mp3"
	case begins("RIFF") && len(content) >= 12 && string(content[8:12]) == "WAVE":
		return "wav"
	case begins("OggS"):
		return "ogg"
	case begins("fLaC"):
		return "flac"
	case begins("\x1a\x45\xdf\xa3"):
		return "webm"
	case len(content) >= 12 && string(content[4:8]) == "ftyp" && !picture.Is(content):
		return "m4a"
	case http.DetectContentType(content) == "audio/aiff":
		return "aiff"
	}
	return ""
}

const withoutText = "[sent without text: "

// Said is what the person wrote. For a message with nothing but files it lists their types, so that
// the model is never asked about nothing.
func Said(a *activity.Activity) string {
	text := a.Said()
	if text != "" || a.Type != activity.Message {
		return text
	}
	var kinds []string
	for _, at := range a.Attachments {
		switch {
		case !strings.HasPrefix(at.ContentType, "text/html"): // a copy of the text
			kinds = append(kinds, at.ContentType)
		case isFile(a, at):
			kinds = append(kinds, "file")
		}
	}
	if len(kinds) == 0 && len(a.Quotes()) > 0 {
		kinds = []string{"what somebody else wrote"}
	}
	if len(kinds) == 0 {
		return ""
	}
	return withoutText + strings.Join(kinds, ", ") + "]"
}

// sentWithoutText reports whether the text is what stands for a message with nothing but files.
func sentWithoutText(text string) bool {
	return text == "" || strings.HasPrefix(text, withoutText) && strings.HasSuffix(text, "]")
}
