// Package offers sends people files that actions and handlers have for them.
//
// A file is offered with a card. A record of its own waits for the person's answer, and the conversation goes on. The
// content lies beside that record, in documents of the conversation. The answer is a turn of its own, in a queue beside
// the conversation's, so that it holds up nothing: it uploads the file part by part and saves how far it is after each of
// them. If its process is killed, the next one goes on there. Answers in a conversation run one after another, and the
// first one takes the file, so it is uploaded once. Answers to the same file that come again are duplicates.
package offers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/state"
)

// Offers is what it needs to know of a bot. It is safe for concurrent use.
type Offers struct {
	Store   *state.Store
	Channel turn.Channel
	Piece   int // how many bytes one request uploads
}

// Feature offers the files.
func (o *Offers) Feature() turn.Feature {
	return turn.Feature{Name: "offers", Offer: o.offer, Over: o.over}
}

// kept is where contents are.
func (o *Offers) kept() *files.Files { return files.New(files.Config{Store: o.Store}) }

// over deletes the content of a file that nobody waits for any more.
func (o *Offers) over(ctx context.Context, _ *turn.Turn, w *turn.Waiting) error {
	if file := offered.Peek(w); file.Name != "" {
		return o.kept().Delete(ctx, w.Key(), w.Turn, file.Parts)
	}
	return nil
}

const (
	// fileFor is how long a person may take to accept a file. maxOffers limits the files that wait for
	// that in one conversation.
	fileFor   = time.Hour
	maxOffers = 4
	// uploadSpare is how many parts of a file may be sent beyond those that it has, because the session
	// wanted another one.
	uploadSpare = 8
)

// kind is what a file waits for, and the name of its slot.
const kind = "file"

const (
	// fileOffer and fileSaved are the cards before and after an upload.
	fileOffer = "application/vnd.microsoft.teams.card.file.consent"
	fileSaved = "application/vnd.microsoft.teams.card.file.info"
)

// offeredFile is a file that waits for its person's answer.
type offeredFile struct {
	Name  string `json:"name"`
	Size  int64  `json:"size"`
	Parts int    `json:"parts,omitempty"` // the documents that have its content
}

var (
	offered   = turn.NewSlot[offeredFile](kind) // in the record that waits for an answer
	uploading = turn.NewSlot[upload]("upload")  // in that of the turn that brings the answer
)

// offer stores a file and returns the message that offers it.
func (o *Offers) offer(ctx context.Context, t *turn.Turn, f actions.File, key string) (*activity.Activity, error) {
	if t.Activity.ChannelID != activity.Teams || !t.Activity.Conversation.Personal() || turn.RepliesInResponse(t) {
		return nil, turn.Refuse("files can be sent only in a personal chat of Teams")
	}
	others, err := turn.Waits(ctx, t, kind)
	if err != nil {
		return nil, err
	}
	id := turn.WaitID(t, "file\n"+key)
	others = slices.DeleteFunc(others, func(w *turn.Waiting) bool { return w.Turn == id })
	if len(others) >= maxOffers {
		return nil, turn.Refuse("too many files wait for the person's answer here")
	}
	// It is there before its content: who drops it drops that.
	w, err := turn.SubmitWait(ctx, t, kind, id, time.Now().Add(fileFor), func(h turn.Holder) {
		*offered.Of(h) = offeredFile{Name: f.Name, Size: int64(len(f.Content)), Parts: o.kept().Parts(len(f.Content))}
	})
	if err != nil {
		return nil, err
	}
	if err := o.kept().Put(ctx, w.Key(), id, f.Content, 0); err != nil {
		return nil, err
	}
	zerolog.Ctx(ctx).Info().Str("offer", id).Int("bytes", len(f.Content)).Msg("file offered")
	m := t.Message("")
	m.Summary = f.Name
	m.Attachments = []activity.Attachment{offerCard(id, f.Name, f.Description, int64(len(f.Content)))}
	return m, nil
}

// offerCard asks the person whether they take the file.
func offerCard(id, name, description string, size int64) activity.Attachment {
	return attached(fileOffer, name, "", map[string]any{
		"description": description, "sizeInBytes": size,
		"acceptContext": offerContext{id}, "declineContext": offerContext{id},
	})
}

// offerContext is what the answer brings back. It is only a name of what the bot keeps.
type offerContext struct {
	Offer string `json:"f"`
}

func attached(contentType, name, address string, content map[string]any) activity.Attachment {
	raw, err := json.Marshal(content, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return activity.Attachment{ContentType: contentType, Name: name, ContentURL: address, Content: raw}
}

// Answer is a person's answer to a file that the bot offered: the value of the invoke
// fileConsent/invoke.
type Answer struct {
	Action     string         `json:"action"` // accept or decline
	Context    jsontext.Value `json:"context"`
	UploadInfo struct {
		ContentURL string `json:"contentUrl"`
		Name       string `json:"name"`
		UploadURL  string `json:"uploadUrl"`
		UniqueID   string `json:"uniqueId"`
		FileType   string `json:"fileType"`
	} `json:"uploadInfo"`
}

const (
	accepts  = "accept"
	declines = "decline"
)

// Check says what is wrong with it.
func (c *Answer) Check() error {
	switch {
	case c.Action != accepts && c.Action != declines:
		return errors.New("the action is neither accept nor decline")
	case c.Action == accepts && c.UploadInfo.UploadURL == "":
		return errors.New("there is no uploadInfo with an uploadUrl")
	}
	return nil
}

// upload is how far a turn is that brings a person's answer to a file.
type upload struct {
	Next int64 `json:"next,omitzero"` // what is uploaded
	// Outcome is one of the below once the answer has taken the file; "": it is at work.
	Outcome string `json:"outcome,omitempty"`
}

const (
	uploaded     = "uploaded"
	declined     = "declined"
	uploadFailed = "failed"
)

// offerID matches the ids of records.
var offerID = lazy.Regexp(`^[a-z2-7]{12}$`)

// Take acts on a person's answer to a file: it uploads it and shows that it did, or says that it
// could not. Only the person who was asked decides, and only once. The turn must run beside its
// conversation, see [turn.Beside].
func (o *Offers) Take(ctx context.Context, t *turn.Turn, c Answer) error {
	var in offerContext
	_ = json.Unmarshal(c.Context, &in) // another context is not ours
	log := zerolog.Ctx(ctx).With().Str("offer", spelling.Clip(in.Offer)).Logger()
	w, err := find(ctx, t, in.Offer)
	switch {
	case err != nil:
		return err
	case uploading.Peek(t).Outcome != "": // a process was killed before it could tell
	case w == nil && offerID().MatchString(in.Offer):
		log.Info().Msg("an answer to a file came too late")
		return t.Send(ctx, o.tell(ctx, t, nil, c, t.Translate("I no longer have that file. Please ask me for it again."))...)
	case w == nil:
		log.Warn().Msg("an answer to a file that the bot did not offer")
		return nil
	}
	file := offeredFile{}
	if w != nil {
		asked := w.Asked
		file = offered.Peek(w)
		if asked.From.ID != t.Activity.From.ID || asked.Conversation.ID != t.Activity.Conversation.ID {
			log.Warn().Str("audit", "file").Msg("an answer to somebody else's file")
			return nil
		}
		t.Activity.Locale = cmp.Or(t.Activity.Locale, asked.Locale)
	}
	up := uploading.Of(t)
	if up.Outcome == "" {
		if c.Action == accepts {
			err = o.Channel.CheckUpload(ctx, c.UploadInfo.UploadURL)
		}
		if err != nil { // nothing was sent, so the file waits for another answer
			log.Warn().Str("error", turn.Cause(err)).Msg("a person's app named an address that no file may go to")
			all := o.tell(ctx, t, nil, c, t.Translate(notThere, titles.Code(titles.Visible(file.Name))))
			all[len(all)-1].Attachments = []activity.Attachment{offerCard(w.Turn, file.Name, "", file.Size)}
			return t.Send(ctx, all...)
		}
		outcome := declined // saved only once it is true
		if c.Action == accepts {
			if outcome, err = o.upload(ctx, t, c.UploadInfo.UploadURL, w); err != nil {
				return err
			}
		}
		up.Outcome = outcome
		log.Info().Str("outcome", up.Outcome).Msg("file answered")
	}
	ctx = turn.Lasting(ctx, t)
	if err := t.Save(ctx); err != nil { // from here on nothing is uploaded again
		return err
	}
	if w != nil {
		if err := turn.DropWait(ctx, t, w); err != nil {
			return err
		}
	}
	return t.Send(ctx, o.tell(ctx, t, &file, c, "")...)
}

// find returns the record of a file that waits; nil: there is none.
func find(ctx context.Context, t *turn.Turn, id string) (*turn.Waiting, error) {
	if !offerID().MatchString(id) {
		return nil, nil
	}
	w, err := turn.FindWait(ctx, t, id)
	if w == nil || w.Asked == nil || offered.Peek(w).Name == "" {
		return nil, err
	}
	return w, err
}

// upload puts the file where the person's client said. Its error means that the turn is left.
func (o *Offers) upload(ctx context.Context, t *turn.Turn, address string, w *turn.Waiting) (outcome string, err error) {
	file := offered.Peek(w)
	content, err := o.kept().Get(ctx, w.Key(), w.Turn, file.Parts)
	if err == nil && int64(len(content)) != file.Size {
		err = files.ErrGone
	}
	if err == nil {
		err = o.uploadParts(ctx, t, address, content)
	}
	if err == nil {
		return uploaded, nil
	}
	if turn.PutsOff(t, err) {
		return "", err
	}
	zerolog.Ctx(ctx).Warn().Str("error", turn.Cause(err)).Msg("a file was not uploaded")
	return uploadFailed, nil
}

func (o *Offers) uploadParts(ctx context.Context, t *turn.Turn, address string, content []byte) (err error) {
	up, piece := uploading.Of(t), o.Piece
	for left := len(content)/piece + uploadSpare; int(up.Next) < len(content); left-- {
		if left == 0 {
			return errors.New("the upload session does not get on")
		}
		part := content[up.Next:min(int(up.Next)+piece, len(content))]
		if up.Next, err = o.Channel.UploadPart(ctx, address, part, up.Next, int64(len(content))); err != nil {
			return err
		}
		if int(up.Next) == len(content) {
			return nil // the caller saves that with the outcome
		}
		turn.Progress(t)
		if err := t.Save(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tell returns what shows the outcome: the card that asked goes, and the person reads what
// became of the file. instead is what they read if that is not the outcome of an upload.
func (o *Offers) tell(ctx context.Context, t *turn.Turn, f *offeredFile, c Answer, instead string) (all []*activity.Activity) {
	if id := t.Activity.ReplyToID; id != "" { // else it could be answered again
		all = append(all, &activity.Activity{Type: activity.MessageDelete, ID: id})
	}
	m := t.Message(instead)
	m.ReplyToID = ""
	name := c.UploadInfo.Name
	if f != nil && f.Name != "" {
		name = f.Name
	}
	switch up := uploading.Peek(t); {
	case instead != "":
	case up.Outcome == declined:
		return all
	case up.Outcome == uploaded:
		info := c.UploadInfo
		if o.Channel.CheckLink(ctx, info.ContentURL) != nil {
			m.Text = t.Translate("I saved %s to your OneDrive.", titles.Code(titles.Visible(name))) // a card would lead there
			break
		}
		m.Summary = info.Name
		m.Attachments = []activity.Attachment{attached(fileSaved, info.Name, info.ContentURL, map[string]any{"uniqueId": info.UniqueID, "fileType": info.FileType})}
	default:
		m.Text = t.Translate(notSaved, titles.Code(titles.Visible(name)))
	}
	return append(all, m)
}

const notThere texts.Text = "I may not save %s where your app said. I still have the file. Please try again."

const notSaved texts.Text = "Sorry, I could not save %s to your OneDrive. Please check if it's there. If not, ask me for it again."
