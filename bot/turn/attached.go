package turn

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/picture"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/state"
)

// What comes with a message is taken before the first plan of its turn: pictures for a model that sees,
// texts of files, and what is said in voice messages. The person reads in one message what was left out
// and why. Pictures and texts live in this process for as long as the turn; the turn's text has a line for
// each, such as "[image: 1024×768 png]", and only that gets into the record and the history. A process
// that takes the turn over fetches them again.

// Attachments says which pictures, files and voice messages a bot shows its model. The zero value:
// none. Only actions get files, and people are told nothing.
type Attachments struct {
	// Shown shows the model what comes with a message, and tells people what is left out. A planner
	// gets pictures if it has a method Sees(context.Context) bool that returns true, as
	// [planner.Planner] has. The plan counts as one that the model is less likely to have meant
	// ([actions.Call.Salvaged]) if it was made with texts of files, pictures or voice messages in
	// view.
	Shown bool
	// Files reads files, in personal chats only. nil: files are not read.
	Files FileReader
	// Transcribe transcribes a voice message, in personal chats only. name ends with the format.
	// nil: voice messages are not transcribed.
	Transcribe func(ctx context.Context, name string, sound []byte) (string, error)
	// Keep is how long texts of files are kept for later messages of their conversation. 0: 1 hour;
	// negative: not at all.
	Keep time.Duration
}

// FileReader reads people's files. Several turns call it at once.
type FileReader interface {
	// Read returns the text of a file in a form that Show takes and that may be kept. It ends in
	// reasonable time whatever the bytes are. Errors that people are told of: [actions.ErrFileTooLarge],
	// [actions.ErrFileNoText] and [actions.ErrFileLocked]; any other says that files of that kind are not
	// read.
	Read(ctx context.Context, name string, content []byte) (text []byte, err error)
	// Show returns the part of the text that fits into so many tokens and matches the question.
	// looked and of say how many pages, or else parts, of how many that is.
	Show(text []byte, question string, tokens int) (shown string, looked, of int, pages bool)
}

const (
	maxPictures  = 4
	maxSounds    = 4
	maxTexts     = 5    // files of a message that are read, and files that are kept
	fileTokens   = 4000 // of all texts of files that a turn shows
	maxSound     = 25 << 20
	maxHeard     = 10_000 // bytes of what was heard
	maxKept      = 20     // parts of a text that is kept
	readAtOnce   = 2      // pictures and files that a process reads at once: each takes up to 200 MB
	keepTextsFor = time.Hour
)

// The sentences about what is left out. %s is the file's name.
const (
	noSight        texts.Text = "Sorry, I can't look at pictures."
	tooManyFiles   texts.Text = "I take up to %s of them from one message, so I left out %s."
	noPicture      texts.Text = "I left out %s, because it is not a PNG, JPEG, WebP or GIF picture."
	largePicture   texts.Text = "I left out %s: pictures can have up to 8 MB and 20 megapixels."
	damagedPicture texts.Text = "I left out %s, because it is damaged."
	linkExpired    texts.Text = "I can't open %s any more. Please send it again."
	notOpened      texts.Text = "I couldn't open %s."
	largeFile      texts.Text = "I can't read %s, because it is too large."
	emptyFile      texts.Text = "I can't read %s, because it has no text. It may be a scan."
	lockedFile     texts.Text = "I can't read %s, because it needs a password."
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
)

// attachedFiles is what the record knows of what came with the message.
type attachedFiles struct {
	// Lines are those in the turn's text, by the number of the attachment.
	Lines []string `json:"lines,omitempty"`
	Sent  int      `json:"sent,omitempty"`  // messages about it
	Quote bool     `json:"quote,omitempty"` // the model sees what others may have written
}

// fileTexts are the texts of files that the conversation's state knows of. They are in documents of
// their own, which Redis drops in time.
type fileTexts struct {
	Files []keptText `json:"files,omitempty"`
}

type keptText struct {
	Name   string    `json:"name"`
	SHA256 string    `json:"sha256"` // of the file
	Size   int       `json:"size"`   // of the file
	ID     string    `json:"id"`
	Parts  int       `json:"parts"`
	Until  time.Time `json:"until"`
}

// attaching takes what comes with the message of a turn.
type attaching struct {
	*execution
	before   *attachedFiles // what an earlier process took; nil: nothing yet
	notes    []string
	lines    []string // by the number of the attachment
	heard    []string
	read     []readText
	pictures int
	sounds   int
	left     []string // names of what is too many
	sees     bool
}

// readText is the text of a file of this message.
type readText struct {
	keptText
	at   int // number of the attachment
	text []byte
}

func (t *attaching) takeAll(ctx context.Context) (tells bool, err error) {
	ctx, s := step(ctx, "attachments")
	defer func() { s.end(err) }()
	t.does(working, false)
	defer t.does("", false)
	if p, ok := t.engine.cfg.Planner.(interface{ Sees(context.Context) bool }); ok {
		t.sees = p.Sees(ctx)
	}
	if t.before != nil {
		copy(t.lines, t.before.Lines)
	}
	for i, at := range t.Activity.Attachments {
		if err := t.takeOne(ctx, i, at); err != nil {
			return false, err
		}
	}
	if len(t.left) > 0 {
		t.note(tooManyFiles, fmt.Sprint(maxPictures), strings.Join(t.left, ", "))
	}
	if err := t.judgeHeard(ctx); err != nil {
		return false, err
	}
	question := t.Text
	if t.before == nil {
		question = t.compose()
	}
	t.show(question)
	if err := (guard{t.execution}).attached(ctx); err != nil {
		return false, err
	}
	if t.before == nil {
		t.keep(ctx)
	}
	return t.tell()
}

// compose puts what was heard and the lines about files behind what the person wrote.
func (t *attaching) compose() string {
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
	t.rec.Text = t.Text
	return t.Text
}

// tell notes what was taken and puts what the person is to know first into the outbox. A message with
// nothing that was taken ends with that.
func (t *attaching) tell() (tells bool, err error) {
	now := &attachedFiles{Lines: t.lines, Quote: len(t.Attached) > 0 || len(t.heard) > 0}
	if t.before != nil {
		now.Sent, now.Quote = t.before.Sent, now.Quote || t.before.Quote
	}
	t.rec.Run.Attached = now
	if len(t.notes) == 0 {
		return false, nil
	}
	note := strings.Join(t.notes, "\n\n")
	if t.before == nil && len(t.Attached) == 0 && len(t.heard) == 0 && sentWithoutText(said(t.Activity)) {
		return false, &stopError{note}
	}
	messages := t.messages(note)
	now.Sent += len(messages)
	return true, t.put(messages)
}

func (t *attaching) note(sentence texts.Text, args ...any) {
	if said := t.Translate(sentence, args...); !slices.Contains(t.notes, said) {
		t.notes = append(t.notes, said)
	}
}

// name is what people read of a file's name.
func (t *attaching) name(i int, at activity.Attachment) string {
	if name := baseName(at.Name); name != "" {
		return titles.Code(titles.Visible(spelling.OneLine(strings.ToValidUTF8(name, "?"), 80)))
	}
	n := 0
	for _, other := range t.Activity.Attachments[:i+1] {
		if isPicture(other) {
			n++
		}
	}
	return t.Translate(aPicture, fmt.Sprint(n))
}

func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return spelling.Shorten(text, most)
}

func baseName(name string) string { return name[strings.LastIndexAny(name, `/\`)+1:] }

// line is a line of the turn's text about a file, such as [file: "a.pdf"].
func (t *attaching) line(what string, at activity.Attachment) string {
	if name := spelling.OneLine(strings.ToValidUTF8(baseName(at.Name), "?"), 80); name != "" {
		return fmt.Sprintf("[%s: %q]", what, name)
	}
	return "[" + what + "]"
}

const (
	notTaken = "left out"
	gone     = "gone"
)

// takeOne takes one attachment. Its error is that of the turn.
func (t *attaching) takeOne(ctx context.Context, i int, at activity.Attachment) error {
	personal, asPicture := t.Activity.Conversation.Personal(), isPicture(at)
	cfg := t.engine.cfg.Attachments
	switch {
	case !asPicture && !personal:
		if isFile(at) {
			t.refuse(i, at, notInChannels)
		}
		return nil
	case !asPicture && !isFile(at):
		return nil
	case t.before != nil && t.lines[i] == t.line(notTaken, at), t.before != nil && t.lines[i] == "": // or it was heard
		return nil
	case asPicture && !t.sees:
		t.refuse(i, at, noSight)
		return nil
	case !asPicture && !t.sees && cfg.Files == nil && cfg.Transcribe == nil:
		t.refuse(i, at, noFiles)
		return nil
	case asPicture && t.pictures == maxPictures, !asPicture && len(t.read) == maxTexts, !asPicture && t.sounds == maxSounds:
		t.lines[i], t.left = t.line(notTaken, at), append(t.left, t.name(i, at))
		return nil
	}
	if asPicture {
		t.pictures++
	}
	if kept, ok := t.keptOf(i); ok && t.before != nil {
		if text := t.load(ctx, kept); text != nil {
			t.read = append(t.read, readText{kept, i, text})
			return nil
		}
	}
	content, err := keptFiles{t.engine}.fetch(ctx, at, mostBytes(at))
	if err != nil {
		return t.notFetched(ctx, i, at, err)
	}
	sound := soundOf(content)
	switch {
	case asPicture || picture.Is(content):
		if !asPicture && t.pictures == maxPictures {
			t.lines[i], t.left = t.line(notTaken, at), append(t.left, t.name(i, at))
			return nil
		}
		if !asPicture {
			t.pictures++
		}
		return t.takePicture(ctx, i, at, content)
	case sound != "":
		return t.listen(ctx, i, at, sound, content)
	case cfg.Files == nil:
		t.refuse(i, at, noFiles)
		return nil
	}
	return t.readFile(ctx, i, at, content)
}

// refuse tells the person that something is left out, and the model, too. A process that took the turn
// over says so only of what the first one had taken.
func (t *attaching) refuse(i int, at activity.Attachment, why texts.Text) {
	if strings.Contains(string(why), "%") {
		t.note(why, t.name(i, at))
	} else {
		t.note(why)
	}
	line := t.line(notTaken, at)
	if t.before != nil {
		line = t.line(gone, at)
		t.Text = strings.Replace(t.Text, t.lines[i], line, 1)
		t.rec.Text = t.Text
	}
	t.lines[i] = line
}

// notFetched tells the person why a file cannot be opened.
func (t *attaching) notFetched(ctx context.Context, i int, at activity.Attachment, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	zerolog.Ctx(ctx).Info().Str("error", cause(err)).Msg("a file of the person was not fetched")
	switch {
	case errors.Is(err, actions.ErrFileGone):
		t.refuse(i, at, linkExpired)
	case errors.Is(err, actions.ErrFileTooLarge) && isPicture(at):
		t.refuse(i, at, largePicture)
	case errors.Is(err, actions.ErrFileTooLarge) && mostBytes(at) == maxSound:
		t.refuse(i, at, largeSound)
	case errors.Is(err, actions.ErrFileTooLarge):
		t.refuse(i, at, largeFile)
	default:
		t.refuse(i, at, notOpened)
	}
	return nil
}

func (t *attaching) takePicture(ctx context.Context, i int, at activity.Attachment, content []byte) error {
	if !t.sees {
		t.refuse(i, at, noSight)
		return nil
	}
	done, err := t.slot(ctx)
	if err != nil {
		return err
	}
	p, err := picture.Read(content)
	done()
	switch {
	case errors.Is(err, picture.ErrTooLarge):
		t.refuse(i, at, largePicture)
	case errors.Is(err, picture.ErrDamaged):
		t.refuse(i, at, damagedPicture)
	case err != nil:
		t.refuse(i, at, noPicture)
	default:
		t.lines[i] = "[" + p.String() + "]"
		t.Attached = append(t.Attached, actions.Attached{Name: baseName(at.Name), Picture: p.Data, Type: p.Type, About: p.String()})
	}
	return nil
}

// slot waits until the process may read one more picture or file. Call done after that.
func (t *attaching) slot(ctx context.Context) (done func(), err error) {
	select {
	case t.engine.parsing <- struct{}{}:
		return func() { <-t.engine.parsing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listen has somebody write down what is said. In a turn that was taken over the text has that already.
func (t *attaching) listen(ctx context.Context, i int, at activity.Attachment, ending string, content []byte) error {
	cfg := t.engine.cfg.Attachments
	switch {
	case cfg.Transcribe == nil:
		t.refuse(i, at, noVoice)
		return nil
	case len(content) > maxSound:
		t.refuse(i, at, largeSound)
		return nil
	}
	t.sounds++
	text, err := cfg.Transcribe(ctx, "voice."+ending, content)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text = shortened(strings.TrimSpace(strings.ToValidUTF8(text, "")), maxHeard)
	if err != nil || text == "" {
		if err != nil {
			zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("a voice message was not transcribed")
		}
		t.refuse(i, at, notHeard)
		return nil
	}
	t.heard = append(t.heard, text)
	return nil
}

// judgeHeard judges what was heard before anybody reads it.
func (t *attaching) judgeHeard(ctx context.Context) error {
	if len(t.heard) == 0 {
		return nil
	}
	if err := (guard{t.execution}).judge(ctx, moderation.Said, t.heard...); err != nil {
		return err
	}
	t.notes = slices.Insert(t.notes, 0, t.Translate(heardThis, titles.Visible(strings.Join(t.heard, " "))))
	return nil
}

func (t *attaching) readFile(ctx context.Context, i int, at activity.Attachment, content []byte) error {
	done, err := t.slot(ctx)
	if err != nil {
		return err
	}
	text, err := t.engine.cfg.Attachments.Files.Read(ctx, baseName(at.Name), content)
	done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		zerolog.Ctx(ctx).Info().Err(err).Msg("a file of the person was not read")
		why := strangeFile
		for known, sentence := range map[error]texts.Text{actions.ErrFileTooLarge: largeFile, actions.ErrFileNoText: emptyFile, actions.ErrFileLocked: lockedFile} {
			if errors.Is(err, known) {
				why = sentence
			}
		}
		t.refuse(i, at, why)
		return nil
	}
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	t.lines[i] = t.line("file", at)
	t.read = append(t.read, readText{keptText{
		Name: shortened(strings.ToValidUTF8(baseName(at.Name), "?"), 200), SHA256: hash, Size: len(content), ID: t.keptID(i),
	}, i, text})
	return nil
}

// show gives the texts to the model, the first ones first, within the tokens that all of them may have.
func (t *attaching) show(question string) {
	left := fileTokens
	for n, r := range t.read {
		budget := left / (len(t.read) - n)
		shown, looked, of, pages := t.engine.cfg.Attachments.Files.Show(r.text, question, budget)
		left -= min(budget, len(shown)/4)
		t.Attached = append(t.Attached, actions.Attached{Name: r.Name, Text: shown})
		if looked == of || t.before != nil || r.at < 0 {
			continue
		}
		sentence := lookedAtParts
		if pages {
			sentence = lookedAtPages
		}
		t.note(sentence, fmt.Sprint(looked), fmt.Sprint(of), t.name(r.at, t.Activity.Attachments[r.at]))
	}
}

func (t *attaching) queueHere() state.Key { return queueOf(actions.To(t.Activity)) }

// keep keeps the texts for the next messages. That is worth no failure of the turn.
func (t *attaching) keep(ctx context.Context) {
	forLong := cmp.Or(t.engine.cfg.Attachments.Keep, keepTextsFor)
	if forLong < 0 || len(t.read) == 0 || t.ReadOnly() {
		return
	}
	list := state.Of[fileTexts](t.Conversation)
	for _, r := range t.read {
		parts := slices.Collect(slices.Chunk(r.text, max((t.engine.cfg.Store.MaxBytes()-4<<10)/4*3, 1))) // it is stored as base64
		if len(parts) > maxKept {
			continue
		}
		kept := r.keptText
		kept.Parts, kept.Until = len(parts), time.Now().Add(forLong).UTC().Truncate(time.Second)
		if err := t.store(ctx, kept.ID, parts, forLong); err != nil {
			zerolog.Ctx(ctx).Warn().Str("error", cause(err)).Msg("the text of a file is not kept")
			continue
		}
		list.Files = append(list.Files, kept)
	}
	list.Files = slices.DeleteFunc(list.Files, func(k keptText) bool { return time.Now().After(k.Until) })
	for len(list.Files) > maxTexts {
		if err := (keptFiles{t.engine}).dropText(ctx, t.queueHere(), list.Files[0]); err != nil {
			zerolog.Ctx(ctx).Warn().Str("error", cause(err)).Msg("the text of an old file stays until its time is over")
		}
		list.Files = slices.Delete(list.Files, 0, 1)
	}
}

func (t *attaching) store(ctx context.Context, id string, parts [][]byte, forLong time.Duration) error {
	for i, part := range parts {
		docs, err := t.engine.cfg.Store.Load(ctx, partKey(t.queueHere(), id, i))
		if err != nil {
			return err
		}
		docs[0].Expire(forLong)
		*state.Of[filePart](docs[0]) = filePart{part}
		if err := t.engine.cfg.Store.Save(ctx, docs...); err != nil {
			return err
		}
	}
	return nil
}

// keptOf is the text of the attachment with that number, if this turn has kept it.
func (t *attaching) keptOf(i int) (keptText, bool) {
	all := state.Peek[fileTexts](t.Conversation).Files
	at := slices.IndexFunc(all, func(k keptText) bool { return k.ID == t.keptID(i) })
	if at < 0 {
		return keptText{}, false
	}
	return all[at], true
}

func (t *attaching) keptID(i int) string { return idOf(t.queueHere(), fmt.Sprint(t.ID, "\n", i)) }

// load reads a text that is kept; nil: it is not there any more.
func (t *attaching) load(ctx context.Context, k keptText) []byte {
	var all bytes.Buffer
	for i := range k.Parts {
		docs, err := t.engine.cfg.Store.Load(ctx, partKey(t.queueHere(), k.ID, i))
		if err != nil || len(state.Peek[filePart](docs[0]).Content) == 0 {
			return nil
		}
		all.Write(state.Peek[filePart](docs[0]).Content)
	}
	return all.Bytes()
}

// recall shows the texts of files that came with earlier messages of the conversation.
func (t *attaching) recall(ctx context.Context) error {
	if t.engine.cfg.Attachments.Files == nil || t.engine.cfg.Attachments.Keep < 0 || !t.Activity.Conversation.Personal() || t.Conversation == nil {
		return nil
	}
	for _, k := range slices.Backward(state.Peek[fileTexts](t.Conversation).Files) {
		if time.Now().After(k.Until) {
			continue
		}
		if text := t.load(ctx, k); text != nil {
			t.read = append(t.read, readText{k, -1, text})
		}
	}
	if err := ctx.Err(); err != nil || len(t.read) == 0 {
		return err
	}
	t.show(t.Text)
	if t.rec.Run.Attached == nil {
		t.rec.Run.Attached = &attachedFiles{}
	}
	t.rec.Run.Attached.Quote = true
	return (guard{t.execution}).attached(ctx)
}

// StateName names the value in the conversation's state.
func (fileTexts) StateName() string { return "filetexts" }

// dropText deletes the text of a file.
func (e keptFiles) dropText(ctx context.Context, queue state.Key, k keptText) error {
	return e.dropContent(ctx, queue, k.ID, &offeredFile{Parts: k.Parts})
}

// isPicture reports whether an attachment is a picture in the message.
func isPicture(at activity.Attachment) bool {
	return strings.HasPrefix(at.ContentType, "image/") && at.ContentURL != ""
}

// fileMark is how the HTML of a message of Teams stands for a file or a voice message: messages that are
// quoted have numbers.
var fileMark = lazy.Regexp(`(?i)<attachment\s+id="[0-9]*[a-z-]`)

// isFile reports whether an attachment is a file, or says that there is one.
func isFile(at activity.Attachment) bool {
	switch {
	case at.ContentType == fileInfo, at.ContentType == "reference", strings.HasPrefix(at.ContentType, "audio/"):
		return true
	case strings.HasPrefix(at.ContentType, "text/html"):
		var text string
		_ = json.Unmarshal(at.Content, &text) // something else has no mark
		return at.ContentURL == "" && fileMark().MatchString(text)
	}
	return !isPicture(at) && at.ContentURL != "" && !strings.HasPrefix(at.ContentType, "application/vnd.microsoft.")
}

// hasFiles reports whether anything comes with a message.
func hasFiles(a *activity.Activity) bool {
	return slices.ContainsFunc(a.Attachments, func(at activity.Attachment) bool { return isPicture(at) || isFile(at) })
}

// mostBytes is how large a file may be, by what its sender calls it.
func mostBytes(at activity.Attachment) int64 {
	switch {
	case isPicture(at):
		return picture.MaxBytes
	case strings.HasPrefix(at.ContentType, "audio/"),
		slices.Contains([]string{".mp3", ".m4a", ".wav", ".webm", ".ogg", ".oga", ".opus", ".flac", ".mpga", ".mp4"}, strings.ToLower(path.Ext(at.Name))):
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

// sentWithoutText reports whether the text is what stands for a message with nothing but files.
func sentWithoutText(text string) bool {
	return text == "" || strings.HasPrefix(text, withoutText) && strings.HasSuffix(text, "]")
}

const withoutText = "[sent without text: "
