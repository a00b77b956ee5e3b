// Package files takes what comes with a person's message: pictures for a model that sees, texts of
// files, and what is said in voice messages. It keeps the texts for later messages of the
// conversation, and the content of files that the bot offers to people. What it takes lives in this
// process for as long as the turn: the turn's text gets a line for each attachment, such as
// "[image: 1024×768 png]", and a process that takes the turn over fetches the attachments again.
package files

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
)

// Attachments says which pictures, files and voice messages a bot shows its model. The zero value:
// none. Only actions get files, and people are told nothing.
type Attachments struct {
	// Shown shows the model what comes with a message, and tells people what is left out. A planner
	// gets pictures if it has a method Sees(context.Context) bool that returns true, as
	// [github.com/planbot-go/planbot/planner.Planner] has. The plan counts as one that the model is
	// less likely to have meant ([actions.Call.Salvaged]) if it was made with texts of files, pictures
	// or voice messages in view.
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
	// [actions.ErrFileTooComplex], [actions.ErrFileNoText], [actions.ErrFileLocked] and
	// [actions.ErrFileDamaged]; any other says that files of that kind are not read.
	Read(ctx context.Context, name string, content []byte) (text []byte, err error)
	// Show returns the part of the text that fits into so many tokens and matches the question.
	// looked and of say how many pages, or else parts, of how many that is.
	Show(text []byte, question string, tokens int) (shown string, looked, of int, pages bool)
}

// Config says what a [Files] works with. All fields are required but Attachments and Sees.
type Config struct {
	Attachments Attachments
	Store       *state.Store
	// Channel downloads attachments, of at most maxBytes; 0: as it likes.
	Channel interface {
		Download(ctx context.Context, a activity.Attachment, maxBytes int64) (content []byte, contentType string, err error)
	}
	// Sees reports whether the model sees pictures. nil: it does not.
	Sees func(ctx context.Context) bool
	// Cause returns what the log may have of an error.
	Cause func(error) string
}

// Files takes, keeps and deletes files. Several turns may use it at once.
type Files struct {
	cfg     Config
	reading chan struct{} // has a token for each picture and file that is read
	holding chan struct{} // has a token for each one that is in memory, to be read
}

// readAtOnce is how many pictures and files a process reads at once: each takes up to 200 MB.
const readAtOnce = 2

// heldAtOnce is how many of them a process has in memory: those that are fetched, wait to be read, or are
// read. Others wait, in order.
const heldAtOnce = 8

// pictureTime limits how long a picture is decoded.
const pictureTime = 10 * time.Second

// New returns a Files for a bot.
func New(cfg Config) *Files {
	return &Files{cfg: cfg, reading: make(chan struct{}, readAtOnce), holding: make(chan struct{}, heldAtOnce)}
}

// fileInfo is an attachment that a person sent from their OneDrive.
const fileInfo = "application/vnd.microsoft.teams.file.download.info"

// Of returns the files and pictures of an activity, for actions. Each is downloaded when it is opened.
func (f *Files) Of(a *activity.Activity) (files []actions.File) {
	for _, at := range a.Attachments {
		sent := at.ContentType == fileInfo && a.Conversation.Personal()
		other := a.ChannelID != activity.Teams && at.ContentURL != "" && !strings.HasPrefix(at.ContentType, "text/html") &&
			!strings.HasPrefix(at.ContentType, "application/vnd.microsoft.")
		if sent || isPicture(at) || other {
			files = append(files, actions.File{
				Name:  baseName(at.Name),
				Fetch: func(ctx context.Context) ([]byte, error) { return f.fetch(ctx, at, 0) },
			})
		}
	}
	return files
}

// fetch downloads a file that a person sent, of at most so many bytes; 0: as the channel likes.
func (f *Files) fetch(ctx context.Context, at activity.Attachment, most int64) ([]byte, error) {
	content, _, err := f.cfg.Channel.Download(ctx, at, most)
	refused, ok := errors.AsType[*connector.Error](err)
	if !ok {
		return content, err
	}
	switch refused.Status {
	case http.StatusRequestEntityTooLarge:
		return nil, errors.Join(actions.ErrFileTooLarge, err)
	case http.StatusNotFound, http.StatusGone:
		return nil, errors.Join(actions.ErrFileGone, err)
	case http.StatusUnauthorized, http.StatusForbidden: // for a picture that is about the bot's token
		if at.ContentType == fileInfo {
			return nil, errors.Join(actions.ErrFileGone, err)
		}
	}
	return nil, err
}

// ErrGone says that the content of a file is not kept any more.
var ErrGone = errors.New("the content of the file is not there any more")

// filePart is a part of a file's content, in a document of its own.
type filePart struct {
	Content []byte `json:"c"`
}

func partKey(queue state.Key, id string, part int) state.Key {
	return queue.Under("files", id+"."+string(rune('a'+part)))
}

// partSize is how much one document takes: its content is stored as base64.
func (f *Files) partSize() int { return max((f.cfg.Store.MaxBytes()-4<<10)/4*3, 1) }

// Parts returns how many parts [Files.Put] makes of a content of that size.
func (f *Files) Parts(size int) int { return (size + f.partSize() - 1) / f.partSize() }

// Put keeps a content beside the conversation's queue, for so long; 0: until [Files.Delete]. After an
// error some parts of it may be there.
func (f *Files) Put(ctx context.Context, queue state.Key, id string, content []byte, forLong time.Duration) error {
	i := 0
	for part := range slices.Chunk(content, f.partSize()) {
		docs, err := f.cfg.Store.Load(ctx, partKey(queue, id, i))
		if err != nil {
			return err
		}
		if forLong > 0 {
			docs[0].Expire(forLong)
		}
		*state.Of[filePart](docs[0]) = filePart{part}
		if err := f.cfg.Store.Save(ctx, docs...); err != nil {
			return err
		}
		i++
	}
	return nil
}

// Get returns a content that Put kept in so many parts. Its error is [ErrGone] or that of the store.
func (f *Files) Get(ctx context.Context, queue state.Key, id string, parts int) (content []byte, err error) {
	missing := error(nil)
	for i := range parts {
		docs, err := f.cfg.Store.Load(ctx, partKey(queue, id, i))
		if err != nil {
			return nil, err
		}
		part := state.Peek[filePart](docs[0]).Content
		if len(part) == 0 {
			missing = ErrGone
		}
		content = append(content, part...)
	}
	return content, missing
}

// Delete deletes a content that Put kept in so many parts. It may be gone already.
func (f *Files) Delete(ctx context.Context, queue state.Key, id string, parts int) error {
	for i := range parts {
		docs, err := f.cfg.Store.Load(ctx, partKey(queue, id, i))
		if len(docs) == 0 {
			return err
		}
		docs[0].Delete() // even if it cannot be read

		// A conflict: somebody else deleted it.
		if err := f.cfg.Store.Save(ctx, docs...); err != nil && !errors.Is(err, state.ErrConflict) {
			return err
		}
	}
	return nil
}

const (
	maxTexts     = 5  // files of a message that are read, and files that are kept
	maxKept      = 20 // parts of a text that is kept
	keepTextsFor = time.Hour
)

// fileTexts are the texts of files that the conversation's state knows of. The texts are in documents
// of their own, which Redis drops in time.
type fileTexts struct {
	Files []keptText `json:"files,omitempty"`
}

// textsName is the name of that value.
const textsName = "filetexts"

// StateName names the value in the conversation's state.
func (fileTexts) StateName() string { return textsName }

type keptText struct {
	Name   string    `json:"name"`
	SHA256 string    `json:"sha256"` // of the file
	Size   int       `json:"size"`   // of the file
	ID     string    `json:"id"`
	Parts  int       `json:"parts"`
	Until  time.Time `json:"until"`
	// Message and From are the id of the message that brought it, and whose message that was.
	Message string `json:"message,omitempty"`
	From    string `json:"from,omitempty"`
}

func (k keptText) over() bool { return time.Now().After(k.Until) }

// Keep keeps the texts of files that [Files.Take] read, for the next messages of the conversation. Call
// it once moderation has passed them, and save the conversation's state after it. It logs what it
// cannot keep: that is worth no failure of the turn.
func (f *Files) Keep(ctx context.Context, m Message, r Result) {
	forLong := cmp.Or(f.cfg.Attachments.Keep, keepTextsFor)
	if forLong < 0 || len(r.read) == 0 || m.Before != nil {
		return
	}
	list := state.Of[fileTexts](m.Conversation)
	for _, read := range r.read {
		kept := read.keptText
		kept.Parts, kept.Until = f.Parts(len(read.text)), time.Now().Add(forLong).UTC().Truncate(time.Second)
		kept.Message, kept.From = m.Activity.ID, m.Activity.From.ID
		if kept.Parts > maxKept {
			continue
		}
		if err := f.Put(ctx, m.Queue, kept.ID, read.text, forLong); err != nil {
			zerolog.Ctx(ctx).Warn().Str("error", f.cfg.Cause(err)).Msg("the text of a file is not kept")
			continue
		}
		list.Files = append(list.Files, kept)
	}
	for len(list.Files) > maxTexts { // the names of those whose time is over stay until then
		old := list.Files[0]
		if err := f.Delete(ctx, m.Queue, old.ID, old.Parts); err != nil {
			zerolog.Ctx(ctx).Warn().Str("error", f.cfg.Cause(err)).Msg("the text of an old file stays until its time is over")
		}
		list.Files = slices.Delete(list.Files, 0, 1)
	}
}

// Kept returns how many texts of files are kept for the conversation.
func Kept(conversation *state.Scope) (n int) {
	for _, k := range state.Peek[fileTexts](conversation).Files {
		if !k.over() {
			n++
		}
	}
	return n
}

// errTextsLeft says that a text is still there after it was deleted.
var errTextsLeft = errors.New("texts of files are still there")

// Forget deletes the texts of files that are kept for the conversation, and reads back that they are
// gone. The next save of the conversation's state forgets that there were any. nil: there are none.
func (f *Files) Forget(ctx context.Context, queue state.Key, conversation *state.Scope) error {
	if conversation == nil || !conversation.Has(textsName) {
		return nil
	}
	for _, k := range state.Peek[fileTexts](conversation).Files {
		if err := f.forget(ctx, queue, k); err != nil {
			return err
		}
	}
	conversation.Remove(textsName)
	return nil
}

// ForgetMessage is [Files.Forget] for the files of one message of that person.
func (f *Files) ForgetMessage(ctx context.Context, queue state.Key, conversation *state.Scope, from, message string) error {
	came := func(k keptText) bool { return k.Message == message && k.From == from }
	if conversation == nil || !slices.ContainsFunc(state.Peek[fileTexts](conversation).Files, came) {
		return nil
	}
	list := state.Of[fileTexts](conversation)
	for _, k := range list.Files {
		if !came(k) {
			continue
		}
		if err := f.forget(ctx, queue, k); err != nil {
			return err
		}
	}
	list.Files = slices.DeleteFunc(list.Files, came)
	return nil
}

// forget deletes a text and reads back that it is gone.
func (f *Files) forget(ctx context.Context, queue state.Key, k keptText) error {
	if err := f.Delete(ctx, queue, k.ID, k.Parts); err != nil {
		return err
	}
	left, err := f.Get(ctx, queue, k.ID, k.Parts)
	switch {
	case len(left) > 0:
		return errTextsLeft
	case errors.Is(err, ErrGone):
		return nil
	}
	return err
}
