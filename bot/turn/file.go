package turn

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
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// A file for a person is offered with a card. A record of its own waits for their answer, and the
// conversation goes on. The content lies beside that record, in documents of the conversation. The
// answer is a turn of its own, in a queue beside the conversation's, so that it holds up nothing:
// it uploads the file part by part and saves how far it is after each of them. If its process is
// killed, the next one goes on there. Answers in a conversation run one after another, and the first
// one takes the file, so it is uploaded once. Answers to the same file that come again are duplicates.

const (
	// fileFor is how long a person may take to accept a file. maxOffers limits the files that wait for
	// that in one conversation.
	fileFor   = time.Hour
	maxOffers = 4
	// uploadSpare is how many parts of a file may be sent beyond those that it has, because the session
	// wanted another one.
	uploadSpare = 8
)

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
	offered   = &Slot[offeredFile]{name: "file"} // in the record that waits for an answer
	uploading = &Slot[upload]{name: "upload"}    // in that of the turn that brings the answer
)

// SendFile offers a file to the person, as [actions.Result.WithFile] does: with a card that asks
// whether they want it. Otherwise it is like [Turn.Send]. Its error for a file that cannot be sent
// says why, in words for the person.
func (t *Turn) SendFile(ctx context.Context, f actions.File) error {
	checked := actions.Done.WithFile(f)
	if checked.Failed() {
		return &refusal{checked.Text()}
	}
	card, err := offerFile(ctx, t, checked.Files()[0], Hash(t.ID, len(t.rec.Sent)))
	if err != nil {
		return err
	}
	return t.Send(ctx, card)
}

// offerFile stores a file and returns the message that offers it. The same key stores it once. An error
// that says why a file cannot be sent here is a refusal.
func offerFile(ctx context.Context, t *Turn, f actions.File, key string) (*activity.Activity, error) {
	e, queue := t.engine, conversationKey(t)
	if t.Activity.ChannelID != activity.Teams || !t.Activity.Conversation.Personal() || RepliesInResponse(t) {
		return nil, Refuse("files can be sent only in a personal chat of Teams")
	}
	others, err := waitsOf(ctx, t, queue, "", isOne(forFile))
	if err != nil {
		return nil, err
	}
	id := idOf(queue, "file\n"+key)
	others = slices.DeleteFunc(others, func(w inbox.Waiting) bool { return w.ID == id })
	if len(others) >= maxOffers {
		return nil, Refuse("too many files wait for the person's answer here")
	}
	rec := Record{
		head:  head{ID: id, Accepted: time.Now().UTC(), Activity: t.rec.newest(), Caller: t.rec.Caller},
		Phase: waiting,
		Wait:  &Wait{For: forFile, Until: time.Now().Add(fileFor).UTC(), Then: done, Owner: personOf(t.Activity)},
	}
	*offered.Of(&rec) = offeredFile{Name: f.Name, Size: int64(len(f.Content)), Parts: e.files.Parts(len(f.Content))}
	raw, err := rec.Encode()
	if err != nil {
		return nil, err
	}
	listed := rec.Wait.listed()
	// It is there before its content: who drops it drops that. It replaces the one with the same id.
	if _, err := e.inbox.Accept(ctx, inbox.Entry{Queue: queue, ID: id, Record: raw, Wait: &listed}); err != nil {
		return nil, err
	}
	if err := e.files.Put(ctx, queue, id, f.Content, 0); err != nil {
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

// dropFile drops a file that waits, with its content.
func dropFile(ctx context.Context, t *Turn, queue state.Key, id string) error {
	e := t.engine
	w, err := e.inbox.Find(ctx, queue, id)
	if errors.Is(err, inbox.ErrNoRecord) {
		return nil
	}
	if err != nil {
		return err
	}
	if rec, err := Decode(w.Record); err == nil {
		if err := e.files.Delete(ctx, queue, id, offered.Peek(&rec).Parts); err != nil {
			return err
		}
	}
	_, err = e.inbox.Drop(ctx, queue, id)
	return err
}

// FileConsent is a person's answer to a file that the bot offered: the value of the invoke
// fileConsent/invoke.
type FileConsent struct {
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
func (c *FileConsent) Check() error {
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

// offerID matches the ids that idOf makes.
var offerID = lazy.Regexp(`^[a-z2-7]{12}$`)

// TakeFile acts on a person's answer to a file: it uploads it and shows that it did, or says that it
// could not. Only the person who was asked decides, and only once. The turn must run beside its
// conversation, see [Beside].
func (t *Turn) TakeFile(ctx context.Context, c FileConsent) error {
	var in offerContext
	_ = json.Unmarshal(c.Context, &in) // another context is not ours
	queue := conversationKey(t)
	log := zerolog.Ctx(ctx).With().Str("offer", cut(in.Offer, 2*idLen)).Logger()
	rec, err := offeredRecord(ctx, t, queue, in.Offer)
	switch {
	case uploading.Peek(t).Outcome != "": // a process was killed before it could tell
	case errors.Is(err, inbox.ErrNoRecord) && offerID().MatchString(in.Offer):
		log.Info().Msg("an answer to a file came too late")
		return t.Send(ctx, tellOfFile(ctx, t, nil, c, t.Translate("I no longer have that file. Please ask me for it again."))...)
	case errors.Is(err, inbox.ErrNoRecord):
		log.Warn().Msg("an answer to a file that the bot did not offer")
		return nil
	case err != nil:
		return err
	}
	file := offered.Peek(&rec)
	if file.Name != "" {
		asked, err := rec.Read()
		if err != nil {
			return err
		}
		if asked.From.ID != t.Activity.From.ID || asked.Conversation.ID != t.Activity.Conversation.ID {
			log.Warn().Str("audit", "file").Msg("an answer to somebody else's file")
			return nil
		}
		t.Activity.Locale = cmp.Or(t.Activity.Locale, asked.Locale)
	}
	up := uploading.Of(t)
	if up.Outcome == "" {
		if c.Action == accepts {
			err = t.engine.cfg.Channel.CheckUpload(ctx, c.UploadInfo.UploadURL)
		}
		if err != nil { // nothing was sent, so the file waits for another answer
			log.Warn().Str("error", Cause(err)).Msg("a person's app named an address that no file may go to")
			all := tellOfFile(ctx, t, nil, c, t.Translate(notThere, titles.Code(titles.Visible(file.Name))))
			all[len(all)-1].Attachments = []activity.Attachment{offerCard(rec.ID, file.Name, "", file.Size)}
			return t.Send(ctx, all...)
		}
		outcome := declined // saved only once it is true
		if c.Action == accepts {
			if outcome, err = uploadFile(ctx, t, c.UploadInfo.UploadURL, rec, queue); err != nil {
				return err
			}
		}
		up.Outcome = outcome
		log.Info().Str("outcome", up.Outcome).Msg("file answered")
	}
	ctx = lastingOf(ctx, t)
	if err := t.Save(ctx); err != nil { // from here on nothing is uploaded again
		return err
	}
	if err := dropFile(ctx, t, queue, in.Offer); err != nil {
		return err
	}
	return t.Send(ctx, tellOfFile(ctx, t, &file, c, "")...)
}

// offeredRecord returns the record of a file that waits.
func offeredRecord(ctx context.Context, t *Turn, queue state.Key, id string) (rec Record, err error) {
	if !offerID().MatchString(id) {
		return rec, inbox.ErrNoRecord
	}
	w, err := t.engine.inbox.Find(ctx, queue, id)
	if err != nil {
		return rec, err
	}
	if rec, err = Decode(w.Record); err == nil && offered.Peek(&rec).Name == "" {
		return Record{}, inbox.ErrNoRecord
	}
	return rec, err
}

// uploadFile puts the file where the person's client said. Its error means that the turn is left.
func uploadFile(ctx context.Context, t *Turn, address string, rec Record, queue state.Key) (outcome string, err error) {
	file := offered.Peek(&rec)
	content, err := t.engine.files.Get(ctx, queue, rec.ID, file.Parts)
	if err == nil && int64(len(content)) != file.Size {
		err = files.ErrGone
	}
	if err == nil {
		err = uploadParts(ctx, t, address, content)
	}
	if err == nil {
		return uploaded, nil
	}
	if putsOff(t, err) {
		return "", err
	}
	zerolog.Ctx(ctx).Warn().Str("error", Cause(err)).Msg("a file was not uploaded")
	return uploadFailed, nil
}

func uploadParts(ctx context.Context, t *Turn, address string, content []byte) (err error) {
	up, piece := uploading.Of(t), t.engine.cfg.UploadPiece
	for left := len(content)/piece + uploadSpare; int(up.Next) < len(content); left-- {
		if left == 0 {
			return errors.New("the upload session does not get on")
		}
		part := content[up.Next:min(int(up.Next)+piece, len(content))]
		if up.Next, err = t.engine.cfg.Channel.UploadPart(ctx, address, part, up.Next, int64(len(content))); err != nil {
			return err
		}
		if int(up.Next) == len(content) {
			return nil // the caller saves that with the outcome
		}
		t.unsaved.progressed = true
		if err := t.Save(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tellOfFile returns what shows the outcome: the card that asked goes, and the person reads what
// became of the file. instead is what they read if that is not the outcome of an upload.
func tellOfFile(ctx context.Context, t *Turn, f *offeredFile, c FileConsent, instead string) (all []*activity.Activity) {
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
		if t.engine.cfg.Channel.CheckLink(ctx, info.ContentURL) != nil {
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
