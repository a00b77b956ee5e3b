// Package graph calls Microsoft Graph. It reads and writes files of groups and channels of Teams as the person of the
// turn: in a personal chat nothing of this is needed, see [actions.Turn.Files] and [actions.Result.WithFile]. And it finds
// the people who may approve a call, as the bot itself: [Client.Manager] and [Client.Members].
//
// An action that uses files has [actions.NeedsToken] with an OAuth connection whose scopes are those of
// Microsoft Graph: for [Files] Files.Read.All, and Chat.Read in group chats or ChannelMessage.Read.All in
// channels; for [Put] Files.ReadWrite.All, and Channel.ReadBasic.All in channels.
package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

const (
	maxFiles   = 20 // of one message
	maxRead    = 20 << 20
	maxAnswer  = 4 << 20
	maxMembers = 999 // of a group; Graph has no more on a page
	callWithin = 30 * time.Second
)

// Client calls Microsoft Graph. The zero value calls https://graph.microsoft.com/v1.0. It is safe for
// concurrent use.
type Client struct {
	// URL is where Microsoft Graph is, such as https://graph.microsoft.us/v1.0 for a government cloud.
	URL string
	// Transport makes the requests. nil: [http.DefaultTransport]. A client that finds people has one of its own, which
	// authorizes the requests, such as that of a golang.org/x/oauth2/clientcredentials.Config with the scope
	// https://graph.microsoft.com/.default and, in Entra, the permissions User.Read.All and GroupMember.Read.All.
	Transport http.RoundTripper
}

// Files returns the files that the person shared with the message of the turn, in a group chat or a
// channel. It reads the message; each [actions.File.Open] downloads, with the errors that it documents.
// nil: there are none. [actions.ErrFileDenied]: the person may not read it, or a scope is missing.
func (c Client) Files(ctx context.Context, turn *actions.Turn, token connector.UserToken) ([]actions.File, error) {
	a := turn.Activity
	path, err := messagePath(ctx, turn)
	if err != nil {
		return nil, err
	}
	var message struct {
		Attachments []struct {
			ContentType, ContentURL, Name string
		}
	}
	if err := c.ask(ctx, token, http.MethodGet, path, nil, &message); err != nil {
		return nil, fmt.Errorf("read the message %s: %w", a.ID, err)
	}
	var files []actions.File
	for _, shared := range message.Attachments {
		if shared.ContentType != "reference" || len(files) == maxFiles {
			continue
		}
		files = append(files, actions.File{
			Name: shared.Name[strings.LastIndexAny(shared.Name, `/\`)+1:],
			Fetch: func(ctx context.Context) ([]byte, error) {
				return c.download(ctx, token, "/shares/u!"+base64.RawURLEncoding.EncodeToString([]byte(shared.ContentURL))+"/driveItem/content")
			},
		})
	}
	return files, nil
}

// messagePath is where Microsoft Graph has the message of the turn.
func messagePath(ctx context.Context, turn *actions.Turn) (string, error) {
	a := turn.Activity
	chat, message := url.PathEscape(a.Conversation.BaseID()), url.PathEscape(a.ID)
	if a.ChannelID != activity.Teams || a.ID == "" || a.Conversation.Personal() {
		return "", errors.New("microsoft graph knows only messages in group chats and channels of Teams")
	}
	if a.Conversation.ConversationType != "channel" {
		return "/chats/" + chat + "/messages/" + message, nil
	}
	team, err := turn.Team(ctx)
	if err == nil && team.GroupID == "" {
		err = errors.New("the connector does not say which group it is")
	}
	if err != nil {
		return "", fmt.Errorf("find the team: %w", err)
	}
	path := "/teams/" + url.PathEscape(team.GroupID) + "/channels/" + chat + "/messages/"
	_, root, threaded := strings.Cut(a.Conversation.ID, ";messageid=")
	if !threaded || root == a.ID {
		return path + message, nil
	}
	return path + url.PathEscape(root) + "/replies/" + message, nil
}

// Put stores a file where the people of the turn's group chat or channel find it, and returns a link to
// it: in the folder of the channel, or in the OneDrive of the person with a link for their organization.
// A name that is taken gets a number. The file has at most 10 MiB, as in [actions.Result.WithFile].
// [actions.ErrFileDenied]: the person may not write there, or a scope is missing.
//
// If ctx ends or the connection breaks, the file may be there all the same; called again, Put stores it
// once more.
func (c Client) Put(ctx context.Context, turn *actions.Turn, token connector.UserToken, f actions.File) (link string, err error) {
	checked := actions.Done.WithFile(f)
	if checked.Failed() {
		return "", errors.New(checked.Text())
	}
	f = checked.Files()[0]
	folder, channel := "/me/drive/root:/Microsoft%20Teams%20Chat%20Files", turn.Activity.Conversation.ConversationType == "channel"
	if channel {
		if folder, err = c.folder(ctx, turn, token); err != nil {
			return "", err
		}
	}
	var stored struct {
		ID, WebURL string
	}
	name := url.PathEscape(f.Name)
	if err := c.ask(ctx, token, http.MethodPut, folder+"/"+name+":/content?@microsoft.graph.conflictBehavior=rename", f.Content, &stored); err != nil {
		return "", fmt.Errorf("store the file: %w", err)
	}
	if channel {
		return stored.WebURL, nil
	}
	var shared struct {
		Link struct{ WebURL string }
	}
	err = c.ask(ctx, token, http.MethodPost, "/me/drive/items/"+url.PathEscape(stored.ID)+"/createLink", []byte(`{"type":"view","scope":"organization"}`), &shared)
	if err != nil {
		return "", fmt.Errorf("share the file: %w", err)
	}
	return shared.Link.WebURL, nil
}

// folder is the path of the folder of the turn's channel.
func (c Client) folder(ctx context.Context, turn *actions.Turn, token connector.UserToken) (string, error) {
	team, err := turn.Team(ctx)
	if err != nil {
		return "", fmt.Errorf("find the team: %w", err)
	}
	var item struct {
		ID              string
		ParentReference struct{ DriveID string }
	}
	path := "/teams/" + url.PathEscape(team.GroupID) + "/channels/" + url.PathEscape(turn.Activity.Conversation.BaseID()) + "/filesFolder"
	if err := c.ask(ctx, token, http.MethodGet, path, nil, &item); err != nil {
		return "", fmt.Errorf("find the folder of the channel: %w", err)
	}
	return "/drives/" + url.PathEscape(item.ParentReference.DriveID) + "/items/" + url.PathEscape(item.ID) + ":", nil
}

// Manager is an [actions.Finder]: the manager of the person of the turn, if they have one.
func (c Client) Manager(ctx context.Context, turn *actions.Turn, _ actions.Call) ([]string, error) {
	person := turn.Activity.From.AadObjectID
	if person == "" {
		return nil, errors.New("the channel does not say who in Entra the person is")
	}
	var manager entry
	err := c.look(ctx, "/users/"+url.PathEscape(person)+"/manager?$select=id,accountEnabled", &manager)
	if errors.Is(err, errNotThere) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the manager: %w", err)
	}
	return people(manager), nil
}

var errNotThere = errors.New("microsoft graph has none")

func (c Client) look(ctx context.Context, path string, into any) error {
	err := c.ask(ctx, connector.UserToken{}, http.MethodGet, path, nil, into)
	switch {
	case errors.Is(err, actions.ErrFileGone):
		return errNotThere
	case errors.Is(err, actions.ErrFileDenied):
		return errors.New("microsoft graph denies it: the bot lacks a permission")
	}
	return err
}

// Members is an [actions.Finder]: the people in a group of Entra and in the groups within it. A group of more than 999
// members is an error.
func (c Client) Members(group string) actions.Finder {
	return func(ctx context.Context, _ *actions.Turn, _ actions.Call) ([]string, error) {
		var page struct {
			Value []entry
			Next  string `json:"@odata.nextLink"`
		}
		path := "/groups/" + url.PathEscape(group) + "/transitiveMembers?$select=id,accountEnabled&$top=" + strconv.Itoa(maxMembers)
		err := c.look(ctx, path, &page)
		if err == nil && page.Next != "" {
			err = errors.New("it has too many members: name a channel instead")
		}
		if err != nil {
			return nil, fmt.Errorf("find the members of the group %s: %w", group, err)
		}
		return people(page.Value...), nil
	}
}

// ErrNobody says that nobody has a name, or that somebody who has it may not sign in.
var ErrNobody = errors.New("nobody in Entra who may sign in has this name")

// Named are people by their user principal names, such as ben@contoso.com. Each name is looked up once, because somebody
// else may get it later. They are safe for concurrent use.
type Named struct {
	client Client
	names  []string

	mu  sync.Mutex
	ids map[string]string
}

// Named returns the people with these user principal names.
func (c Client) Named(names ...string) *Named {
	return &Named{client: c, names: names, ids: map[string]string{}}
}

// Names are the names, as they were given.
func (n *Named) Names() []string { return slices.Clone(n.names) }

// Find is an [actions.Finder].
func (n *Named) Find(ctx context.Context, _ *actions.Turn, _ actions.Call) ([]string, error) {
	return n.IDs(ctx)
}

// IDs returns their ids in Entra, in the order of the names. [ErrNobody]: there is no such person.
func (n *Named) IDs(ctx context.Context) (ids []string, err error) {
	for _, name := range n.names {
		id, err := n.id(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("find %.80q: %w", name, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (n *Named) id(ctx context.Context, name string) (string, error) {
	n.mu.Lock()
	known := n.ids[name]
	n.mu.Unlock()
	if known != "" {
		return known, nil
	}
	if !strings.Contains(name, "@") {
		return "", ErrNobody
	}
	var person entry
	err := n.client.look(ctx, "/users/"+url.PathEscape(name)+"?$select=id,accountEnabled", &person)
	switch {
	case errors.Is(err, errNotThere):
		return "", ErrNobody
	case err != nil:
		return "", err
	case person.ID == "" || person.Enabled != nil && !*person.Enabled:
		return "", ErrNobody
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids[name] = cmp.Or(n.ids[name], person.ID)
	return n.ids[name], nil
}

// entry is one of a directory.
type entry struct {
	Type    string `json:"@odata.type"`
	ID      string
	Enabled *bool `json:"accountEnabled"`
}

// people are those of the entries who can sign in.
func people(all ...entry) (ids []string) {
	for _, e := range all {
		if e.Type == "#microsoft.graph.user" && (e.Enabled == nil || *e.Enabled) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// ask makes one call and decodes its answer.
func (c Client) ask(ctx context.Context, token connector.UserToken, method, path string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	res, err := c.do(ctx, token, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusMultipleChoices {
		return refusal(res.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	return err
}

func (c Client) do(ctx context.Context, token connector.UserToken, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, cmp.Or(c.URL, "https://graph.microsoft.com/v1.0")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
		if method == http.MethodPost {
			req.Header.Set("Content-Type", "application/json")
		}
	}
	if secret := token.Secret(); secret != "" { // else the transport has one
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	return c.send(req)
}

// send sends a request and follows no redirect, which could take the token elsewhere.
func (c Client) send(req *http.Request) (*http.Response, error) {
	client := http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the address of a download is a secret
	}
	return res, err
}

func refusal(status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return actions.ErrFileDenied
	case http.StatusNotFound, http.StatusGone:
		return actions.ErrFileGone
	}
	return fmt.Errorf("microsoft graph answered %d %s", status, http.StatusText(status))
}

// download reads a file. Graph answers with an address of SharePoint that needs no token and gets none.
func (c Client) download(ctx context.Context, token connector.UserToken, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	res, err := c.do(ctx, token, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusFound || res.StatusCode == http.StatusTemporaryRedirect {
		_ = res.Body.Close()
		address, err := res.Location()
		if err != nil || !ofMicrosoft(address, res.Request.URL) {
			return nil, errors.New("microsoft graph refers to an address that is none of its own")
		}
		if res, err = c.send((&http.Request{Method: http.MethodGet, URL: address, Header: http.Header{}}).WithContext(ctx)); err != nil {
			return nil, err
		}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, refusal(res.StatusCode)
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, maxRead+1))
	if err == nil && len(content) > maxRead {
		err = actions.ErrFileTooLarge
	}
	return content, err
}

// ofMicrosoft reports whether a file may be at that address: at a service of Microsoft that keeps files,
// or where Graph itself is.
func ofMicrosoft(address, graph *url.URL) bool {
	if address.Scheme == graph.Scheme && address.Host == graph.Host {
		return true
	}
	return address.Scheme == "https" && slices.ContainsFunc([]string{".sharepoint.com", ".sharepoint.us", ".sharepoint.cn", ".1drv.com", ".svc.ms"},
		func(service string) bool { return strings.HasSuffix(address.Hostname(), service) })
}
