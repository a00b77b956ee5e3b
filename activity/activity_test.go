package activity_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
)

func TestRoundTripIsLossless(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/inbound/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no inbound samples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			a, err := activity.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			out, err := a.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(generic(t, data), generic(t, out)); diff != "" {
				t.Errorf("round trip (-in +out):\n%s", diff)
			}
			std, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(generic(t, data), generic(t, std)); diff != "" {
				t.Errorf("round trip through encoding/json (-in +out):\n%s", diff)
			}
		})
	}
}

func generic(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDecodeAcceptsAnyJSONWhereTheChannelMay(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`"text"`, `12`, `[1,2]`, `true`, `{"a":{"b":1}}`} {
		a, err := activity.Decode([]byte(`{"type":"invoke","conversation":{"id":"c"},"value":` + value + `,"channelData":` + value + `}`))
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		if string(a.Value) != value || string(a.ChannelData) != value {
			t.Errorf("%s: got value %s, channelData %s", value, a.Value, a.ChannelData)
		}
		if a.TeamsData().Team.ID != "" {
			t.Errorf("%s: a team out of nothing", value)
		}
	}
}

func TestDecodeIsLenientWhereItMayBe(t *testing.T) {
	t.Parallel()
	a, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"timestamp":"not a time","localTimestamp":5,
		"text":"lone \ud800 surrogate","entities":[null,{"type":null},{"type":7},{"type":"mention","mentioned":"odd"}],
		"attachments":[null,{"contentType":"text/html","content":"<p>"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if a.Text != "lone \ufffd surrogate" {
		t.Errorf("text %q", a.Text)
	}
	if len(a.Entities) != 3 || len(a.Attachments) != 1 || len(a.Mentions()) != 0 {
		t.Errorf("entities %d, attachments %d, mentions %d", len(a.Entities), len(a.Attachments), len(a.Mentions()))
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", activity.MaxIDBytes+1)
	deep := strings.Repeat("[", activity.MaxDepth) + strings.Repeat("]", activity.MaxDepth)
	for name, body := range map[string]string{
		"empty":             ``,
		"null":              `null`,
		"array":             `[]`,
		"string":            `"message"`,
		"truncated":         `{"type":"message","conversation":{"id":"c"}`,
		"trailing garbage":  `{"type":"message","conversation":{"id":"c"}} x`,
		"byte-order mark":   "\xef\xbb\xbf" + `{"type":"message","conversation":{"id":"c"}}`,
		"invalid UTF-8":     `{"type":"message","conversation":{"id":"` + "\xff" + `"}}`,
		"no type":           `{"conversation":{"id":"c"}}`,
		"type of no string": `{"type":1,"conversation":{"id":"c"}}`,
		"no conversation":   `{"type":"message"}`,
		"conversation null": `{"type":"message","conversation":null}`,
		"from of no object": `{"type":"message","conversation":{"id":"c"},"from":"me"}`,
		"duplicate key":     `{"type":"message","conversation":{"id":"c"},"serviceUrl":"https://a","serviceUrl":"https://b"}`,
		"conversation ..":   `{"type":"message","conversation":{"id":".."}}`,
		"id .":              `{"type":"message","id":".","conversation":{"id":"c"}}`,
		"id ..":             `{"type":"message","id":"..","conversation":{"id":"c"}}`,
		"long conversation": `{"type":"message","conversation":{"id":"` + long + `"}}`,
		"long id":           `{"type":"message","id":"` + long + `","conversation":{"id":"c"}}`,
		"long person":       `{"type":"message","from":{"aadObjectId":"` + long + `"},"conversation":{"id":"c"}}`,
		"long tenant":       `{"type":"message","conversation":{"id":"c","tenantId":"` + long + `"}}`,
		"too many values":   `{"type":"message","conversation":{"id":"c"},"value":[0` + strings.Repeat(",0", activity.MaxValues) + `]}`,
		"too deep":          `{"type":"message","conversation":{"id":"c"},"value":` + deep + `}`,
	} {
		if _, err := activity.Decode([]byte(body)); !errors.Is(err, activity.ErrMalformed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestDecodeQuotesNothing: its errors are logged, and what people write is not.
func TestDecodeQuotesNothing(t *testing.T) {
	t.Parallel()
	const said, head = "theirwords", `{"type":"message","conversation":{"id":"c"},`
	long := said + strings.Repeat("x", 10_000)
	for body, want := range map[string]string{
		head + `"` + long + `":1,"` + long + `":2}`:            "duplicate key near byte 1",
		head + `"value":{"` + long + `":1,"` + long + `":2}}`:  "duplicate key near byte 1",
		head + `"value":{"` + long + `":[1}}`:                  "no JSON near byte 1",
		head + `"value":` + said + `}`:                         "no JSON near byte 53",
		head + `"text":"\u` + said + `"}`:                      "no JSON near byte",
		head + `"from":{"` + said + `":1,"name":["` + said:     "no JSON near byte",
		head + `"from":"` + said + `"}`:                        "a field of the wrong type near byte 51",
		head + `"entities":"` + said + `"}`:                    "a field of the wrong type near byte",
		head + `"attachments":[{"content":{"` + said + `":1,}`: "no JSON near byte",
		head + `"text":"` + said:                               "no JSON",
	} {
		_, err := activity.Decode([]byte(body))
		if err == nil {
			t.Errorf("%.100s: no error", body)
			continue
		}
		got := err.Error()
		if strings.Contains(got, "their") || len(got) > 100 || !strings.Contains(got, want) {
			t.Errorf("%.100s: %.300q, want %q", body, got, want)
		}
	}
}

func TestDecodeDoesNotTakeKeysOfAnotherCase(t *testing.T) {
	t.Parallel()
	a, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"serviceUrl":"https://good","ServiceURL":"https://evil","serviceurl":"https://evil"}`))
	if err != nil {
		t.Fatal(err)
	}
	if a.ServiceURL != "https://good" {
		t.Errorf("serviceUrl %q", a.ServiceURL)
	}
}

func TestEncodeWritesNoZeroValues(t *testing.T) {
	t.Parallel()
	in := &activity.Activity{Type: activity.Message, ID: "1", ChannelID: "emulator", ServiceURL: "http://localhost"}
	in.Conversation.ID = "c"
	in.From.ID, in.Recipient.ID = "user", "bot"
	out, err := in.Reply("hello").Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"message","channelId":"emulator","serviceUrl":"http://localhost","from":{"id":"bot"},"recipient":{"id":"user"},"conversation":{"id":"c"},"replyToId":"1","text":"hello"}`
	if string(out) != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
}

func FuzzDecode(f *testing.F) {
	files, _ := filepath.Glob("testdata/inbound/*.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"type":"message","conversation":{"id":"c"},"entities":[null,{"type":"mention"}],"x":{"y":[1e400]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := activity.Decode(data)
		if err != nil {
			return
		}
		_ = a.Said()
		_ = a.TeamsData()
		out, err := a.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := activity.Decode(out)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, out)
		}
		if diff := cmp.Diff(a.Text, again.Text); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data, err := os.ReadFile("testdata/inbound/group-mention.json")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := activity.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
