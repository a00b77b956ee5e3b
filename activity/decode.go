package activity

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

const (
	// MaxDepth is how deep the JSON of an activity may nest.
	MaxDepth = 64
	// MaxValues is how many values the JSON of an activity may have, one in another
	// counted each.
	MaxValues = 1 << 16
	// MaxIDBytes is how long the id of an activity, account, channel or
	// conversation may be.
	MaxIDBytes = 1 << 10
)

// ErrMalformed is what every error of Decode wraps: the bytes are no activity.
var ErrMalformed = errors.New("malformed activity")

// Decode reads one activity. It refuses, with an error that wraps
// [ErrMalformed]: a byte-order mark, invalid UTF-8, anything but one JSON
// object, nesting beyond [MaxDepth], more than [MaxValues], duplicate keys,
// fields of the wrong type, a missing type or conversation id, identifiers beyond
// [MaxIDBytes], and "." and ".." as id or conversation id, which go into addresses. The
// error quotes nothing of the bytes, so that it may be logged. Value and channelData may
// be any JSON; a lone surrogate escape becomes U+FFFD; null entities and attachments are
// skipped, and a callerId is dropped.
func Decode(data []byte) (*Activity, error) {
	if err := checkShape(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	a := new(Activity)
	if err := json.Unmarshal(data, a, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, inConstantWords(err))
	}
	a.CallerID = ""
	a.dropNulls()
	if err := a.checkIdentity(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return a, nil
}

// inConstantWords says what the JSON reader found, and where: its own words quote
// names and signs of what it read.
func inConstantWords(err error) error {
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("duplicate key near byte %d", syntax.ByteOffset)
	case errors.As(err, &syntax):
		return fmt.Errorf("no JSON near byte %d", syntax.ByteOffset)
	case errors.As(err, &meaning):
		return fmt.Errorf("a field of the wrong type near byte %d", meaning.ByteOffset)
	}
	return errors.New("no JSON")
}

// Encode writes the activity as JSON, without its zero values.
func (a *Activity) Encode() ([]byte, error) {
	type plain Activity // without MarshalJSON, whose result would be read once more
	data, err := json.Marshal((*plain)(a), encoding)
	if err != nil {
		return nil, fmt.Errorf("encode %s activity: %w", a.Type, err)
	}
	return data, nil
}

// encoding omits false and 0 along with what is empty, as the schema types of
// msbotbuilder-go expect of omitempty.
var encoding = json.JoinOptions(
	jsonv1.OmitEmptyWithLegacySemantics(true),
	json.OmitZeroStructFields(true),
	jsontext.AllowInvalidUTF8(true),
)

// MarshalJSON is [Activity.Encode], for callers of other JSON packages.
func (a *Activity) MarshalJSON() ([]byte, error) { return a.Encode() }

// checkShape refuses bytes that the JSON reader would accept, or would accept
// only after reading far into them.
func checkShape(data []byte) error {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return errors.New("byte-order mark")
	}
	if !utf8.Valid(data) {
		return errors.New("invalid UTF-8")
	}
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("not a JSON object")
	}
	return checkStructure(data)
}

// checkStructure counts by the signs between values.
func checkStructure(data []byte) error {
	depth, values, inString := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("nested deeper than %d levels", MaxDepth)
			}
		case c == ',':
			if values++; values > MaxValues {
				return fmt.Errorf("more than %d values", MaxValues)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func (a *Activity) dropNulls() {
	a.Entities = slices.DeleteFunc(a.Entities, func(v jsontext.Value) bool { return v.Kind() == 'n' })
	a.Attachments = slices.DeleteFunc(a.Attachments, func(at Attachment) bool {
		return at.ContentType == "" && at.ContentURL == "" && at.Content == nil && at.Name == "" && at.ThumbnailURL == "" && at.Extra == nil
	})
}

func (a *Activity) checkIdentity() error {
	if a.Type == "" {
		return errors.New("no type")
	}
	switch {
	case a.Conversation.ID == "":
		return errors.New("no conversation.id")
	case dots(a.Conversation.ID):
		return errors.New("conversation.id is no name")
	case dots(a.ID):
		return errors.New("id is no name")
	}
	for _, id := range []struct{ name, value string }{
		{"type", string(a.Type)},
		{"id", a.ID},
		{"replyToId", a.ReplyToID},
		{"channelId", a.ChannelID},
		{"serviceUrl", a.ServiceURL},
		{"name", a.Name},
		{"from.id", a.From.ID},
		{"recipient.id", a.Recipient.ID},
		{"conversation.id", a.Conversation.ID},
		{"conversation.tenantId", a.Conversation.TenantID},
		{"from.aadObjectId", a.From.AadObjectID},
	} {
		if len(id.value) > MaxIDBytes {
			return fmt.Errorf("%s is longer than %d bytes", id.name, MaxIDBytes)
		}
	}
	return nil
}

// dots reports whether the id would be a step in an address, not a part of it.
func dots(id string) bool { return id == "." || id == ".." }
