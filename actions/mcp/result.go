package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
)

// unreadable is the result of a call whose answer came and cannot be read.
var unreadable = actions.Text("This was done, but its answer could not be read.")

// toolResult is the result of a call.
type toolResult struct {
	Content    []block         `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	ResultType string          `json:"resultType"`
	Task       json.RawMessage `json:"task"`
}

// block is a part of a result.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource *struct {
		URI      string `json:"uri"`
		MIMEType string `json:"mimeType"`
		Text     string `json:"text"`
		Blob     string `json:"blob"`
	} `json:"resource"`
	Annotations struct {
		Audience []string `json:"audience"`
	} `json:"annotations"`
}

// regular is a result with members of other types than the protocol's written as it has them. What is neither false nor
// empty is an error.
func regular(raw []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw
	}
	isError := !slices.Contains([]string{"", "null", "false", "0", `""`, `"false"`}, string(members["isError"]))
	members["isError"] = json.RawMessage(strconv.FormatBool(isError))
	var content any
	_ = json.Unmarshal(members["content"], &content) // came from JSON
	blocks, isList := content.([]any)
	if !isList && content != nil {
		blocks = []any{content}
	}
	for i, one := range blocks {
		b, isObject := one.(map[string]any)
		if !isObject {
			b = map[string]any{"type": "text", "text": one}
		}
		if _, isText := b["text"].(string); !isText && b["text"] != nil {
			text, _ := json.Marshal(b["text"]) // came from JSON
			b["text"] = string(text)
		}
		about, _ := b["annotations"].(map[string]any)
		b["annotations"] = map[string]any{"audience": about["audience"]}
		if audience, isText := about["audience"].(string); isText {
			b["annotations"] = map[string]any{"audience": []string{audience}}
		}
		blocks[i] = b
	}
	members["content"], _ = json.Marshal(blocks) // came from JSON
	out, _ := json.Marshal(members)
	return out
}

// say is the block in words; known is false if there is no such type.
func (b block) say() (text string, known bool) {
	switch b.Type {
	case "text":
		return b.Text, true
	case "image", "audio":
		return media(b.MIMEType, b.Data), true
	case "resource_link":
		return fmt.Sprintf("%s (%s)", spelling.OneLine(b.Name, maxDescription), spelling.OneLine(b.URI, maxDescription)), true
	case "resource":
		switch r := b.Resource; {
		case r == nil:
			return "", false
		case r.Blob != "":
			return media(r.MIMEType, r.Blob), true
		default:
			return r.Text, true
		}
	}
	return "", false
}

// media stands for what models do not read, such as [image/png, 146 KB].
func media(kind, base64 string) string {
	size := len(base64) * 3 / 4 //nolint:mnd // four characters are three bytes
	return fmt.Sprintf("[%s, %d KB]", cmp.Or(spelling.OneLine(kind, maxTitle), "file"), (size+1<<9)>>10)
}

// forPersonOnly reports whether the model does not get the block.
func (b block) forPersonOnly() bool { return slices.Equal(b.Annotations.Audience, []string{"user"}) }

// maxAlone is how long a text is that only the person sees.
const maxAlone = 4000

// usable returns the data of a result with its numbers to the digit. A text that is the same JSON is read
// instead, and then is not told as well. The error has no value of the result in it.
func usable(r toolResult, promised *validator.Schema) (jsontext.Value, error) {
	value, twin := jsontext.Value(r.Structured), false
	wanted := value.Clone()
	if err := wanted.Canonicalize(); err != nil {
		return nil, errors.New("it is no JSON that everybody reads in the same way")
	}
	for _, b := range r.Content {
		same := jsontext.Value(b.Text)
		if b.Type == "text" && same.Canonicalize() == nil && bytes.Equal(same, wanted) {
			value, twin = jsontext.Value(b.Text), true
			break
		}
	}
	if !twin && !exact(value) {
		return nil, errors.New("it has an integer beyond 2^53, which other readers change, and no text with the same")
	}
	if promised == nil {
		return value, nil
	}
	tree, err := validator.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return nil, errors.New("it is no JSON")
	}
	if wrong, ok := errors.AsType[*validator.ValidationError](promised.Validate(tree)); ok {
		return nil, fmt.Errorf("it does not fit the outputSchema: %s", faultIn(wrong))
	}
	return value, nil
}

// faultIn names the keyword of a schema that a value does not fit, and its place in the schema.
func faultIn(wrong *validator.ValidationError) string {
	for len(wrong.Causes) > 0 {
		wrong = wrong.Causes[0]
	}
	_, place, _ := strings.Cut(wrong.SchemaURL, "#")
	return spelling.OneLine(place+" "+strings.Join(wrong.ErrorKind.KeywordPath(), "/"), maxReason)
}

// exact reports whether no integer is so large that a double may not hold it.
func exact(value jsontext.Value) bool {
	limit := big.NewInt(1 << 53)
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if token.Kind() != '0' {
			continue
		}
		if n, ok := new(big.Int).SetString(token.String(), 10); ok && n.CmpAbs(limit) > 0 {
			return false
		}
	}
}
