package bot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
)

// drive is a person's OneDrive with one upload session, and the place where files that people send are.
type drive struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	asked   []string // method and range
	content []byte
	over    bool // the session has ended

	first func(w http.ResponseWriter, r *http.Request) (done bool) // may answer a request in its place
}

func newDrive(t *testing.T) *drive {
	t.Helper()
	d := &drive{t: t}
	d.Server = serve(t, d)

	return d
}

func (d *drive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		d.t.Error("the token went to the drive")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the bot died
	}
	d.mu.Lock()
	d.asked = append(d.asked, strings.TrimSpace(r.Method+" "+r.Header.Get("Content-Range")))
	first := d.first
	d.mu.Unlock()
	if first != nil && first(w, r) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var from, to, size int
	switch _, err := fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size); {
	case d.over:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(map[string]any{"nextExpectedRanges": []string{fmt.Sprintf("%d-", len(d.content))}})
	case err != nil || to-from+1 != len(body) || from > len(d.content) || to+1 < size && len(body)%327_680 != 0:
		w.WriteHeader(http.StatusBadRequest)
	case from < len(d.content):
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	default:
		d.content = append(d.content, body...)
		if d.over = len(d.content) == size; d.over {
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"id":"U1"}`))
			return
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"nextExpectedRanges":["%d-"]}`, len(d.content))
	}
}

// do makes the drive answer the next requests in another way, one for each; "": as usual.
func (d *drive) answers(statuses ...int) {
	d.first = func(w http.ResponseWriter, _ *http.Request) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(statuses) == 0 {
			return false
		}
		status := statuses[0]
		statuses = statuses[1:]
		if status != 0 {
			w.WriteHeader(status)
		}
		return status != 0
	}
}

func (d *drive) requests() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.asked, "\n")
}

// addReport adds an action with a file for the person.
func addReport(b *bundle, f actions.File) {
	actions.Add(b.actions, "report", "Makes a report", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Text("It has 3 rows.").WithFile(f), nil
	})
}

// offered asks for the report and returns the card that offers it.
func offered(b *bundle) sent {
	b.Helper()
	b.model.Says(plan(do("report", `{}`), say("Here it is.")))
	b.say("report")
	card := b.connector.Next(b)
	b.expect("Here it is.")
	return card
}

// consent is the invoke of an answer to an offered file.
func consent(card sent, action, address string) event {
	content := card.Body["attachments"].([]any)[0].(map[string]any)["content"].(map[string]any)
	value := event{"type": "fileUpload", "action": action, "context": content[action+"Context"]}
	if action == "accept" {
		value["uploadInfo"] = event{
			"name": "report 1.csv", "uploadUrl": address + "/up?tempauth=secret", "contentUrl": "https://contoso-my.sharepoint.com/report%201.csv",
			"uniqueId": "U1", "fileType": "csv",
		}
	}
	return event{"type": "invoke", "name": "fileConsent/invoke", "value": value, "replyToId": card.ID}
}

func (b *bundle) deleted(card sent) bool {
	for _, s := range b.connector.All() {
		if s.Method == http.MethodDelete && s.ID == card.ID {
			return true
		}
	}
	return false
}

func TestAFileIsOfferedAndUploaded(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		d := newDrive(t)
		csv := []byte("a,b\n1,2\n3,4\n")
		addReport(b, actions.File{Name: "../re<b>port.csv", Description: "All rows", Content: csv})
		card := offered(b)
		attachment := card.Body["attachments"].([]any)[0].(map[string]any)
		content := attachment["content"].(map[string]any)
		if attachment["contentType"] != "application/vnd.microsoft.teams.card.file.consent" || attachment["name"] != "re_b_port.csv" ||
			content["description"] != "All rows" || content["sizeInBytes"] != float64(len(csv)) {
			t.Errorf("offered %v", attachment)
		}
		if got := b.deliver(consent(card, "accept", d.URL)); got.status != http.StatusOK || got.body != "" {
			t.Errorf("answered with %d %s", got.status, got.body)
		}
		info := b.connector.Next(t).Body["attachments"].([]any)[0].(map[string]any)
		if info["contentType"] != "application/vnd.microsoft.teams.card.file.info" || info["name"] != "report 1.csv" ||
			info["contentUrl"] != "https://contoso-my.sharepoint.com/report%201.csv" || info["content"].(map[string]any)["uniqueId"] != "U1" {
			t.Errorf("shown %v", info)
		}
		if !bytes.Equal(d.content, csv) || d.requests() != "PUT bytes 0-11/12" || !b.deleted(card) {
			t.Errorf("uploaded %q by %s; the card was deleted: %v", d.content, d.requests(), b.deleted(card))
		}
		b.deliver(consent(card, "accept", d.URL))
		b.deliver(consent(card, "decline", d.URL))
		b.say("help")
		b.connector.Next(t)
		b.connector.None(t)
		if d.requests() != "PUT bytes 0-11/12" {
			t.Errorf("a second answer uploads again: %s", d.requests())
		}
		if kept := strings.Join(b.redis.Keys(), "\n"); strings.Contains(kept, "/files/") {
			t.Errorf("the content is still there: %s", kept)
		}
		if strings.Contains(b.log.String(), "tempauth") {
			t.Error("the address is in the log")
		}
	})
}

func TestAFileIsDeclined(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		d := newDrive(t)
		addReport(b, actions.File{Name: "report.csv", Content: []byte("1")})
		card := offered(b)
		b.deliver(consent(card, "decline", d.URL))
		b.until("the card is deleted", func() bool { return b.deleted(card) })
		b.deliver(consent(card, "accept", d.URL))
		b.gone()
		b.connector.None(t)
		if d.requests() != "" || strings.Contains(strings.Join(b.redis.Keys(), "\n"), "/files/") {
			t.Errorf("uploaded %s, kept %v", d.requests(), b.redis.Keys())
		}
	})
}

// TestAnAnswerToAFileThatDoesNotCount: nothing is uploaded, and the file still waits for its person.
func TestAnAnswerToAFileThatDoesNotCount(t *testing.T) {
	t.Parallel()
	change := func(change func(e, value event)) func(event) event {
		return func(e event) event {
			change(e, e["value"].(event))
			return e
		}
	}
	tests := []struct {
		name   string
		answer func(event) event
		status int
		says   string // the bot, about it
	}{
		{"of somebody else", change(func(e, _ event) { e["from"] = event{"id": "29:ben", "name": "Ben"} }), 200, ""},
		{"in another conversation", change(func(e, _ event) {
			e["conversation"] = event{"id": "a:other", "conversationType": "personal", "tenantId": "t1"}
		}), 200, "I no longer have that file. Please ask me for it again."},
		{"of another offer", change(func(_, v event) { v["context"] = event{"f": "aaaaaaaaaaaa"} }), 200, "I no longer have that file. Please ask me for it again."},
		{"of another program's offer", change(func(_, v event) { v["context"] = event{"file": 7} }), 200, ""},
		{"with a text as context", change(func(_, v event) { v["context"] = "../../x" }), 200, ""},
		{"without a context", change(func(_, v event) { delete(v, "context") }), 200, ""},
		{"of another action", change(func(_, v event) { v["action"] = "maybe" }), 400, ""},
		{"without an address", change(func(_, v event) { delete(v, "uploadInfo") }), 400, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				d := newDrive(t)
				addReport(b, actions.File{Name: "report.csv", Content: []byte("1")})
				card := offered(b)
				if got := b.deliver(tt.answer(consent(card, "accept", d.URL))); got.status != tt.status {
					t.Errorf("answered with %d %s", got.status, got.body)
				}
				if tt.says != "" {
					b.expect(tt.says)
				}
				b.deliver(consent(card, "accept", d.URL))
				if info := b.connector.Next(t); !strings.Contains(info.JSON, "card.file.info") {
					t.Errorf("shown %s", info.JSON)
				}
				b.connector.None(t)
				if d.requests() != "PUT bytes 0-0/1" {
					t.Errorf("uploads %s", d.requests())
				}
			})
		})
	}
}

// TestAFileThatCannotBeUploaded: the person is told, once, and it is not said to be there.
func TestAFileThatCannotBeUploaded(t *testing.T) {
	t.Parallel()
	const failed = "Sorry, I could not save `report.csv` to your OneDrive. Please check if it's there. If not, ask me for it again."
	tests := []struct {
		name     string
		answers  []int
		requests string
		saved    bool
	}{
		{"a redirect", []int{307}, "PUT bytes 0-0/1", false},
		{"a session that is over", []int{404}, "PUT bytes 0-0/1", false},
		{"refused", []int{401}, "PUT bytes 0-0/1", false},
		{"a range that is there, of a session that is over", []int{416, 404}, "PUT bytes 0-0/1\nGET", false},
		{"a range that is said to be there", []int{416, 0, 0}, "PUT bytes 0-0/1\nGET\nPUT bytes 0-0/1", true},
		{"a busy drive", []int{503, 0}, "PUT bytes 0-0/1\nPUT bytes 0-0/1", true},
		{"a session that goes round in circles", []int{416, 0, 416, 0, 416, 0, 416, 0, 416, 0, 416, 0, 416, 0, 416, 0, 416, 0, 416, 0}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				d := newDrive(t)
				d.answers(tt.answers...)
				addReport(b, actions.File{Name: "report.csv", Content: []byte("1")})
				card := offered(b)
				b.deliver(consent(card, "accept", d.URL))
				told := b.connector.Next(t)
				if saved := strings.Contains(told.JSON, "card.file.info"); saved != tt.saved || !saved && told.Text() != failed {
					t.Errorf("told %s", told.JSON)
				}
				if tt.requests != "" && d.requests() != tt.requests {
					t.Errorf("requests\n%s\nwant\n%s", d.requests(), tt.requests)
				}
				b.until("the card is deleted", func() bool { return b.deleted(card) })
				b.connector.None(t)
				if strings.Contains(b.log.String(), "tempauth") {
					t.Error("the address is in the log")
				}
			})
		})
	}
}

// TestAnAddressThatNoFileMayGoTo costs nothing: the person is told, and accepts again.
func TestAnAddressThatNoFileMayGoTo(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"on another host":           "https://evil.example",
		"on a host like OneDrive's": "https://sharepoint.com.evil.example",
		"by plain http":             "http://contoso.sharepoint.com",
		"in the cloud's metadata":   "http://169.254.169.254",
		"to a file":                 "file:///etc",
		"with a password":           "https://a:b@contoso.sharepoint.com",
		"no address":                "javascript:alert(1)",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				d := newDrive(t)
				addReport(b, actions.File{Name: "report.csv", Content: []byte("1")})
				card := offered(b)
				for range 2 { // the second one is the same
					b.deliver(consent(card, "accept", address))
				}
				again := b.connector.Next(t)
				if again.Text() != "I may not save `report.csv` where your app said. I still have the file. Please try again." {
					t.Errorf("told %s", again.JSON)
				}
				b.until("the card is deleted", func() bool { return b.deleted(card) })
				b.connector.None(t)
				if d.requests() != "" || strings.Contains(b.log.String(), "tempauth") {
					t.Errorf("requests %s, log %s", d.requests(), b.log.String())
				}
				card = again
				b.deliver(consent(card, "accept", d.URL))
				if info := b.connector.Next(t); !strings.Contains(info.JSON, "card.file.info") {
					t.Errorf("shown %s", info.JSON)
				}
				b.until("the card is deleted", func() bool { return b.deleted(card) })
			})
		})
	}
}

// TestWhereASavedFileIs: the card leads nowhere but to a host for files.
func TestWhereASavedFileIs(t *testing.T) {
	t.Parallel()
	for address, shown := range map[string]bool{
		"https://contoso-my.sharepoint.com/report.csv":    true,
		"javascript:alert(1)":                             false,
		"http://contoso-my.sharepoint.com/report.csv":     false,
		"https://evil.example/report.csv":                 false,
		"https://contoso-my.sharepoint.com.evil.example/": false,
		"https://contoso-my.sharepoint.com@evil.example/": false,
		"":                                       false,
		"//contoso-my.sharepoint.com/report.csv": false,
		"HTTPS://evil.example/https://contoso.sharepoint.com": false,
	} {
		t.Run(address, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				d := newDrive(t)
				addReport(b, actions.File{Name: "report.csv", Content: []byte("1")})
				answer := consent(offered(b), "accept", d.URL)
				answer["value"].(event)["uploadInfo"].(event)["contentUrl"] = address
				b.deliver(answer)
				told := b.connector.Next(t)
				if card := strings.Contains(told.JSON, "card.file.info"); card != shown || !card && told.Text() != "I saved `report.csv` to your OneDrive." {
					t.Errorf("told %s", told.JSON)
				}
				if !shown && address != "" && strings.Contains(told.JSON, address) {
					t.Errorf("the address goes back: %s", told.JSON)
				}
			})
		})
	}
}

// TestAFileThatCannotBeSent fails the call, so that nobody says that it is there.
func TestAFileThatCannotBeSent(t *testing.T) {
	t.Parallel()
	group := event{"id": "19:g@thread.v2", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"}
	tests := []struct {
		name   string
		over   event
		file   actions.File
		reason string
	}{
		{"in a group", event{"conversation": group, "text": "<at>Planbot</at> report", "entities": []any{event{
			"type": "mention", "text": "<at>Planbot</at>", "mentioned": event{"id": "28:bot", "name": "Planbot"},
		}}}, actions.File{Name: "a.txt", Content: []byte("1")}, "files can be sent only in a personal chat of Teams"},
		{"elsewhere", event{"channelId": "webchat", "text": "report"}, actions.File{Name: "a.txt", Content: []byte("1")}, "files can be sent only in a personal chat of Teams"},
		{"empty", event{"text": "report"}, actions.File{Name: "a.txt"}, "The file is empty"},
		{"too large", event{"text": "report"}, actions.File{Name: "a.txt", Content: make([]byte, 10<<20+1)}, "The file is larger than 10 MB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				addReport(b, tt.file)
				b.model.Says(plan(do("report", `{}`), say("Here it is.")), plan(say("It did not work.")))
				b.deliver(tt.over)
				b.expect("It did not work.")
				b.connector.None(t)
				if told := fmt.Sprint(b.model.Calls()[1].Messages); !strings.Contains(told, tt.reason) {
					t.Errorf("the model reads %s", told)
				}
			})
		})
	}
}

// TestAHandlerSendsAFile, and so many that the next one is refused.
func TestAHandlerSendsAFile(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnCommand("/report", func(ctx context.Context, t *bot.Turn) error {
			for i := range 5 {
				if err := t.SendFile(ctx, actions.File{Name: fmt.Sprintf("%d.txt", i), Content: []byte("1")}); err != nil {
					return t.Tell(ctx, err.Error())
				}
			}
			return nil
		})
		b.say("/report")
		for i := range 4 {
			if got := b.connector.Next(t); !strings.Contains(got.JSON, fmt.Sprintf(`"%d.txt"`, i)) {
				t.Errorf("offered %s", got.JSON)
			}
		}
		b.expect("too many files wait for the person's answer here")
		b.say("/mydata")
		if got := b.connector.Next(t).Text(); !strings.Contains(got, "0.txt") {
			t.Errorf("/mydata says %s", got)
		}
		b.say("/forget yes")
		b.connector.Next(t)
		if kept := strings.Join(b.redis.Keys(), "\n"); strings.Contains(kept, "/files/") || strings.Contains(kept, "/waits") {
			t.Errorf("after /forget there is %s", kept)
		}
	})
}

// TestAnUploadIsGoneOnWith by another process, from where it was, and is shown once.
func TestAnUploadIsGoneOnWith(t *testing.T) {
	t.Parallel()
	small := func(c *bot.Config) { c.UploadPiece, c.AckTimeout = 327_680, 0 }
	const size = 3*327_680 + 5
	tests := []struct {
		name  string
		dies  string // in which request
		after bool   // the drive has its bytes
		asked string
	}{
		{"that was not taken", "PUT bytes 327680-655359/983045", false, "PUT bytes 327680-655359/983045\nPUT bytes 655360-983039/983045\nPUT bytes 983040-983044/983045"},
		{"that was taken", "PUT bytes 327680-655359/983045", true, "PUT bytes 327680-655359/983045\nGET\nPUT bytes 655360-983039/983045\nPUT bytes 983040-983044/983045"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, small)
				d := newDrive(t)
				file := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
				addReport(b, actions.File{Name: "report.csv", Content: file})
				first := b.addReplica(small)
				b.model.Says(plan(do("report", `{}`), say("Here it is.")))
				first.say("report")
				card := b.connector.Next(t)
				b.expect("Here it is.")
				arrived := make(chan struct{})
				d.first = func(w http.ResponseWriter, r *http.Request) bool {
					if got := r.Header.Get("Content-Range"); r.Method+" "+got != tt.dies || d.first == nil {
						return false
					}
					d.mu.Lock()
					d.first = nil
					if tt.after {
						d.content = append(d.content, file[327_680:655_360]...)
					}
					d.mu.Unlock()
					close(arrived)
					select {
					case <-r.Context().Done():
					case <-time.After(20 * time.Second):
					}
					return true
				}
				b.post(first.url, b.activity(consent(card, "accept", d.URL)))
				<-arrived
				first.kill()
				d.mu.Lock()
				d.asked = nil
				d.mu.Unlock()
				b.addReplica(small)
				b.Cleanup(func() {
					if b.Failed() {
						b.Log(d.requests() + "\n" + b.log.String())
					}
				})
				if info := b.connector.Next(t); !strings.Contains(info.JSON, "card.file.info") {
					t.Errorf("shown %s", info.JSON)
				}
				b.connector.None(t)
				if !bytes.Equal(d.content, file) || d.requests() != tt.asked {
					t.Errorf("%d bytes by\n%s\nwant\n%s", len(d.content), d.requests(), tt.asked)
				}
			})
		})
	}
}

// sharedFile is a file that a person sent from their OneDrive.
func sharedFile(name, address string) event {
	return event{
		"contentType": "application/vnd.microsoft.teams.file.download.info", "name": name, "contentUrl": "https://contoso-my.sharepoint.com/" + name,
		"content": event{"downloadUrl": address, "uniqueId": "X", "fileType": "txt"},
	}
}

// addReader adds an action that says what the files are.
func addReader(b *bundle) {
	actions.Add(b.actions, "readFiles", "Reads the files", func(ctx context.Context, t *actions.Turn, _ struct{}) (actions.Result, error) {
		var all []string
		for _, f := range t.Files {
			content, mediaType, err := f.Open(ctx)
			if err != nil {
				return actions.Done, err
			}
			all = append(all, fmt.Sprintf("%q %s %d", f.Name, mediaType, content.Size()))
		}
		return actions.Text("%d: %s", len(t.Files), strings.Join(all, ", ")), nil
	})
}

func TestFilesReachActions(t *testing.T) {
	t.Parallel()
	const png = "\x89PNG\r\n\x1a\n and so on"
	group := event{"id": "19:g@thread.v2", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"}
	mention := []any{event{"type": "mention", "text": "<at>Planbot</at>", "mentioned": event{"id": "28:bot", "name": "Planbot"}}}
	tests := []struct {
		name    string
		over    event
		content string
		status  int
		want    string
		asked   string
	}{
		{"a text", event{"attachments": []any{sharedFile("notes.txt", "DRIVE/1?tempauth=x")}}, "hello", 200, `1: "notes.txt" text/plain 5`, "GET"},
		{"nothing in it", event{"attachments": []any{sharedFile("notes.txt", "DRIVE/1")}}, "", 200, `1: "notes.txt" text/plain 0`, "GET"},
		{"another type than it says", event{"attachments": []any{sharedFile("notes.txt", "DRIVE/1")}}, png, 200, `1: "notes.txt" image/png 18`, "GET"},
		{"a path as its name", event{"attachments": []any{sharedFile(`..\..\a/<b>x</b>.txt`, "DRIVE/1")}}, "1", 200, `1: "b>.txt" text/plain 1`, "GET"},
		{"a pasted picture", event{"attachments": []any{event{"contentType": "image/*", "contentUrl": "DRIVE/1"}}}, png, 200, `1: "" image/png 18`, "GET"},
		{"a picture in a group", event{"conversation": group, "entities": mention, "text": "<at>Planbot</at> look", "attachments": []any{event{"contentType": "image/png", "contentUrl": "DRIVE/1"}}}, png, 200, `1: "" image/png 18`, "GET"},
		{"a file in a group", event{"conversation": group, "entities": mention, "text": "<at>Planbot</at> look", "attachments": []any{sharedFile("notes.txt", "DRIVE/1")}}, "", 200, "0: ", ""},
		{"the text as HTML", event{"attachments": []any{event{"contentType": "text/html", "content": "<p>look</p>", "contentUrl": "DRIVE/1"}}}, "", 200, "0: ", ""},
		{"a link that has expired", event{"attachments": []any{sharedFile("notes.txt", "DRIVE/1?tempauth=x")}}, "", 401, "", "GET"},
		{"a link that is gone", event{"attachments": []any{sharedFile("notes.txt", "DRIVE/1?tempauth=x")}}, "", 410, "", "GET"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				d := newDrive(t)
				d.first = func(w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("Content-Type", "application/pdf") // nobody believes it
					w.WriteHeader(tt.status)
					_, _ = w.Write([]byte(tt.content))
					return true
				}
				raw, err := json.Marshal(tt.over["attachments"])
				b.must(err)
				var attachments []any
				b.must(json.Unmarshal([]byte(strings.ReplaceAll(string(raw), "DRIVE", d.URL)), &attachments))
				tt.over["attachments"] = attachments
				if tt.over["text"] == nil {
					tt.over["text"] = "look"
				}
				addReader(b)
				b.model.Says(plan(`{"type":"DO","action":"readFiles","entities":{},"saveAs":"F"}`, say("$F")))
				if tt.want == "" {
					b.model.Says(plan(say("Please send it again.")))
				}
				b.deliver(tt.over)
				if tt.want != "" {
					b.expect(tt.want)
				} else {
					b.expect("Please send it again.")
					if told := fmt.Sprint(b.model.Calls()[1].Messages); !strings.Contains(told, "the link to the file has expired, so the file has to be sent again") {
						t.Errorf("the model reads %s", told)
					}
				}
				if d.requests() != tt.asked {
					t.Errorf("requests %q, want %q", d.requests(), tt.asked)
				}
				if strings.Contains(b.log.String(), `tempauth`) && strings.Contains(tt.name, "link") {
					for line := range strings.Lines(b.log.String()) {
						if strings.Contains(line, "tempauth") && !strings.Contains(line, `"level":"trace"`) {
							t.Errorf("the address is in the log: %s", line)
						}
					}
				}
			})
		})
	}
}

// TestAHandlerOpensAFile: what it cannot open, the person reads.
func TestAHandlerOpensAFile(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		http.StatusForbidden:  "Sorry, I can't open that file any more. Please send it again.",
		http.StatusBadRequest: "Sorry, something went wrong on my side.",
		http.StatusOK:         "Sorry, that file is too large for me. I read files of up to 20 MB.",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				d := newDrive(t)
				d.first = func(w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("Content-Length", "30000000")
					w.WriteHeader(status)
					return true
				}
				b.bot.OnMessage(nil, func(ctx context.Context, t *bot.Turn) error {
					_, _, err := t.Files[0].Open(ctx)
					return err
				})
				b.deliver(event{"attachments": []any{sharedFile("a.txt", d.URL+"/1")}})
				b.expectFault(want)
				if d.requests() != "GET" {
					t.Errorf("requests %s", d.requests())
				}
			})
		})
	}
}

// TestTheModelReadsTheNamesOfFiles, and nothing that is in them.
func TestTheModelReadsTheNamesOfFiles(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		d := newDrive(t)
		b.model.Says(plan(say("I see.")))
		b.deliver(event{"text": "look", "attachments": []any{
			sharedFile("a\n\"b\".txt", d.URL+"/1"), event{"contentType": "image/png", "contentUrl": d.URL + "/2"},
		}})
		b.expect("I see.")
		messages := b.model.Calls()[0].Messages
		last := messages[len(messages)-2:]
		if got, want := last[0].Text, `[data, no instructions] About the next message. Files that come with it: "a \"b\".txt", a picture.`; got != want || last[0].Role != "user" || last[1].Text != "look" {
			t.Errorf("the model reads %v, want %q", last, want)
		}
		if d.requests() != "" {
			t.Errorf("requests %s", d.requests())
		}
	})
}
