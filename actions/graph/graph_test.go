package graph_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/graph"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// office stands in for Microsoft Graph and SharePoint.
type office struct {
	*httptest.Server

	mu      sync.Mutex
	asked   []string
	answers map[string]func(http.ResponseWriter)
}

func newOffice(t *testing.T) *office {
	o := &office{answers: map[string]func(http.ResponseWriter){}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		o.asked = append(o.asked, strings.TrimSpace(strings.Join([]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Authorization"), string(body)}, " ")))
		answer := o.answers[r.URL.EscapedPath()]
		o.mu.Unlock()
		if answer == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer(w)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *office) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.asked
	o.asked = nil
	return all
}

func says(status int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func goTo(address string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Location", address)
		w.WriteHeader(http.StatusFound)
	}
}

var mia = connector.NewUserToken("graph", "mias-token", time.Time{})

func turnIn(kind, conversation, id string) *actions.Turn {
	a := activity.Activity{Type: "message", ID: id, ChannelID: activity.Teams}
	a.Conversation.ID, a.Conversation.ConversationType = conversation, kind
	return &actions.Turn{
		Activity: &a,
		Team:     func(context.Context) (connector.Team, error) { return connector.Team{GroupID: "g-1"}, nil },
	}
}

const shared = `{"attachments":[
	{"contentType":"reference","contentUrl":"https://contoso.sharepoint.com/sites/a/plan b.txt","name":"x/plan b.txt"},
	{"contentType":"messageReference","content":"{}"}]}`

const share = "/shares/u!aHR0cHM6Ly9jb250b3NvLnNoYXJlcG9pbnQuY29tL3NpdGVzL2EvcGxhbiBiLnR4dA/driveItem/content"

func TestFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		turn *actions.Turn
		path string
	}{
		{"a group chat", turnIn("groupChat", "19:g@thread.v2", "17"), "/chats/19:g@thread.v2/messages/17"},
		{"a post in a channel", turnIn("channel", "19:c@thread.tacv2;messageid=17", "17"), "/teams/g-1/channels/19:c@thread.tacv2/messages/17"},
		{"a reply in a channel", turnIn("channel", "19:c@thread.tacv2;messageid=17", "18"), "/teams/g-1/channels/19:c@thread.tacv2/messages/17/replies/18"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.answers[tt.path] = says(200, shared)
			o.answers[share] = goTo(o.URL + "/download?tempauth=secret")
			o.answers["/download"] = says(200, "plan b")
			files, err := graph.Client{URL: o.URL}.Files(t.Context(), tt.turn, mia)
			if err != nil || len(files) != 1 || files[0].Name != "plan b.txt" {
				t.Fatalf("%v, %v", files, err)
			}
			content, mediaType, err := files[0].Open(t.Context())
			if err != nil || mediaType != "text/plain" || content.Size() != 6 {
				t.Errorf("%v %s %v", content, mediaType, err)
			}
			if diff := cmp.Diff([]string{"GET " + tt.path + "  Bearer mias-token", "GET " + share + "  Bearer mias-token", "GET /download tempauth=secret"}, o.requests()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const message = "/chats/19:g/messages/17"
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter)
		is     error
		says   string
	}{
		{"refused", says(403, `{"error":{"message":"secret"}}`), actions.ErrFileDenied, ""},
		{"gone", says(404, ""), actions.ErrFileGone, ""},
		{"another host", goTo("https://evil.test/x?tempauth=secret"), nil, "an address that is none of its own"},
		{"another host by its end", goTo("https://evilsharepoint.com/x"), nil, "an address that is none of its own"},
		{"plain http", goTo("http://contoso.sharepoint.com/x"), nil, "an address that is none of its own"},
		{"no address", goTo(""), nil, "an address that is none of its own"},
		{"too large", says(200, strings.Repeat("x", 20<<20+1)), actions.ErrFileTooLarge, ""},
		{"broken", says(503, ""), nil, "503"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.answers[message], o.answers[share] = says(200, shared), tt.answer
			files, err := graph.Client{URL: o.URL}.Files(t.Context(), turnIn("groupChat", "19:g", "17"), mia)
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			_, _, err = files[0].Open(t.Context())
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
		})
	}
	o := newOffice(t)
	for name, turn := range map[string]*actions.Turn{"personal": turnIn("personal", "a:1", "17"), "no message": turnIn("groupChat", "19:g", ""), "nobody may": turnIn("groupChat", "19:other", "17")} {
		if files, err := (graph.Client{URL: o.URL}).Files(t.Context(), turn, mia); err == nil {
			t.Errorf("%s: %v", name, files)
		}
	}
	o.answers[message] = says(401, "")
	if _, err := (graph.Client{URL: o.URL}).Files(t.Context(), turnIn("groupChat", "19:g", "17"), mia); !errors.Is(err, actions.ErrFileDenied) {
		t.Error(err)
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.answers["/teams/g-1/channels/19:c/filesFolder"] = says(200, `{"id":"f","parentReference":{"driveId":"b!d"}}`)
	o.answers["/drives/b%21d/items/f:/a%20b.txt:/content"] = says(201, `{"id":"i","webUrl":"https://contoso.sharepoint.com/i"}`)
	o.answers["/me/drive/root:/Microsoft%20Teams%20Chat%20Files/a%20b.txt:/content"] = says(201, `{"id":"i"}`)
	o.answers["/me/drive/items/i/createLink"] = says(201, `{"link":{"webUrl":"https://contoso.sharepoint.com/l"}}`)
	client, file := graph.Client{URL: o.URL}, actions.File{Name: "x/a b.txt", Content: []byte("hello")}
	link, err := client.Put(t.Context(), turnIn("channel", "19:c;messageid=1", "1"), mia, file)
	if err != nil || link != "https://contoso.sharepoint.com/i" {
		t.Error(link, err)
	}
	link, err = client.Put(t.Context(), turnIn("groupChat", "19:g", "1"), mia, file)
	if err != nil || link != "https://contoso.sharepoint.com/l" {
		t.Error(link, err)
	}
	const rename = " @microsoft.graph.conflictBehavior=rename Bearer mias-token hello"
	want := []string{
		"GET /teams/g-1/channels/19:c/filesFolder  Bearer mias-token", "PUT /drives/b%21d/items/f:/a%20b.txt:/content" + rename,
		"PUT /me/drive/root:/Microsoft%20Teams%20Chat%20Files/a%20b.txt:/content" + rename,
		`POST /me/drive/items/i/createLink  Bearer mias-token {"type":"view","scope":"organization"}`,
	}
	if diff := cmp.Diff(want, o.requests()); diff != "" {
		t.Error(diff)
	}
	delete(o.answers, "/me/drive/items/i/createLink")
	if link, err := client.Put(t.Context(), turnIn("groupChat", "19:g", "1"), mia, file); err == nil {
		t.Error("no link, and no error:", link)
	}
	if _, err := client.Put(t.Context(), turnIn("groupChat", "19:g", "1"), mia, actions.File{Name: "empty"}); err == nil {
		t.Error("an empty file was stored")
	}
}

// TestPeople: the manager and the members of a group are people who can sign in; what cannot be found out is an error.
func TestPeople(t *testing.T) {
	t.Parallel()
	const manager, group = "/users/aad-mia/manager", "/groups/g-1/transitiveMembers"
	const ben = `{"@odata.type":"#microsoft.graph.user","id":"aad-ben","accountEnabled":true}`
	turn := turnIn("personal", "a:1", "17")
	turn.Activity.From.AadObjectID = "aad-mia"
	for _, tt := range []struct {
		name, path string
		answer     func(http.ResponseWriter)
		want       []string
		fails      string
	}{
		{"a manager", manager, says(200, ben), []string{"aad-ben"}, ""},
		{"no manager", manager, says(404, ""), nil, ""},
		{"a manager who left", manager, says(200, strings.Replace(ben, "true", "false", 1)), nil, ""},
		{"no permission", manager, says(403, ""), nil, "find the manager: microsoft graph denies it: the bot lacks a permission"},
		{"no answer", manager, says(503, ""), nil, "503"},
		{"a group", group, says(200, `{"value":[`+ben+`,{"@odata.type":"#microsoft.graph.group","id":"g-2"}]}`), []string{"aad-ben"}, ""},
		{"an unknown group", group, says(404, ""), nil, "the group g-1: microsoft graph has none"},
		{"half a group", group, says(200, `{"value":[`+ben+`],"@odata.nextLink":"https://graph.test/more"}`), nil, "name a channel instead"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.answers[tt.path] = tt.answer
			client := graph.Client{URL: o.URL}
			find := client.Members("g-1")
			if tt.path == manager {
				find = client.Manager
			}
			got, err := find(t.Context(), turn, actions.Call{})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Error(err)
			}
			if asked := o.requests(); len(asked) != 1 || strings.Contains(asked[0], "Bearer") {
				t.Error(asked)
			}
		})
	}
	if got, err := (graph.Client{}).Manager(t.Context(), turnIn("personal", "a:1", "17"), actions.Call{}); err == nil {
		t.Error("nobody has a manager:", got)
	}
}

// TestNamed: a name is looked up once, also if somebody else gets it later; a name that nobody has is an error each time.
func TestNamed(t *testing.T) {
	t.Parallel()
	const path = "/users/ben@contoso.com"
	o := newOffice(t)
	client := graph.Client{URL: o.URL}
	board := client.Named("ben@contoso.com")
	for _, tt := range []struct {
		answer func(http.ResponseWriter)
		nobody bool
	}{
		{says(503, ""), false},
		{says(404, ""), true},
		{says(200, `{"id":"aad-ben","accountEnabled":false}`), true},
		{says(200, `{}`), true},
	} {
		o.answers[path] = tt.answer
		if got, err := board.IDs(t.Context()); err == nil || errors.Is(err, graph.ErrNobody) != tt.nobody {
			t.Errorf("found %v, %v", got, err)
		}
	}
	for _, id := range []string{"aad-ben", "aad-another-ben"} {
		o.answers[path] = says(200, `{"id":"`+id+`","accountEnabled":true}`)
		got, err := board.Find(t.Context(), nil, actions.Call{})
		if err != nil || !slices.Equal(got, []string{"aad-ben"}) {
			t.Errorf("found %v, %v", got, err)
		}
	}
	for _, name := range []string{"Ben", ""} { // anybody can take a name that is none of a user's
		if got, err := client.Named(name).IDs(t.Context()); !errors.Is(err, graph.ErrNobody) {
			t.Errorf("%q is %v, %v", name, got, err)
		}
	}
	if asked := o.requests(); len(asked) != 5 {
		t.Error(asked)
	}
}

func ExampleClient_Files() {
	acts := actions.New()
	actions.Add(acts, "readShared", "Says which files came with the message", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		token, err := turn.UserToken(ctx, "graph")
		if err != nil {
			return actions.Done, err
		}
		files, err := graph.Client{}.Files(ctx, turn, token)
		if err != nil {
			return actions.Done, err
		}
		return actions.Text("%d files", len(files)), nil
	}, actions.NeedsToken("graph"))
	a, _ := acts.Lookup("readShared")
	fmt.Println(a.Connection)
	// Output: graph
}
