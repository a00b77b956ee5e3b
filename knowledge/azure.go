package knowledge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	azureVersion  = "2024-07-01"
	maxAzureBytes = 8 << 20
	maxAzureText  = 8000 // characters of a passage
	azureNearest  = 50   // what semantic ranking gets
)

// AzureSearchConfig configures an [AzureSearch]. Endpoint, Index, Tenant, and Key or Token are required; the
// zero value of every other field is a working default.
type AzureSearchConfig struct {
	Endpoint string // https://NAME.search.windows.net
	Index    string
	Key      string // a query key
	// Token returns a token of Microsoft Entra ID for https://search.azure.com, instead of a Key.
	Token func(ctx context.Context) (string, error)
	// Tenant is the id of the tenant whose people may read.
	Tenant string
	// Access is the field that says who may read a document: a filterable collection of texts, each as in
	// [Folder.Access], with ids in small letters. Documents without one are read by nobody. "": access.
	Access string
	// Names of the other fields. "": id, title, url and content.
	ID, Title, URL, Content string
	// Semantic is the semantic configuration to rank with. "": none.
	Semantic string
	// Vector is a vector field whose vectorizer the service uses for questions, beside the words of
	// texts. "": words alone.
	Vector string
	// Transport carries the calls. nil: its own connection pool.
	Transport http.RoundTripper
}

// AzureSearch is an index of Azure AI Search. It is safe for concurrent use.
type AzureSearch struct{ cfg AzureSearchConfig }

var _ Source = (*AzureSearch)(nil)

var (
	azureName  = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	azureField = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_]{0,127}$`)
	// azureRight is what may stand in a filter. There is no quote in it, and no separator.
	azureRight = lazy.Regexp(`^[A-Za-z0-9 ._:;@=-]{1,200}$`)
)

// NewAzureSearch checks all of cfg. It does not touch the network.
func NewAzureSearch(cfg AzureSearchConfig) (*AzureSearch, error) {
	var errs []error
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback.IsHost(u.Hostname())) {
		errs = append(errs, errors.New("the Endpoint is no https address"))
	}
	if !azureName().MatchString(cfg.Index) {
		errs = append(errs, errors.New("the Index is no name"))
	}
	if (cfg.Key == "") == (cfg.Token == nil) {
		errs = append(errs, errors.New("there has to be a Key or a Token"))
	}
	if strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		errs = append(errs, errors.New("the Key holds a space or another character that no key has"))
	}
	if cfg.Tenant == "" {
		errs = append(errs, errors.New("no Tenant"))
	}
	cfg.ID, cfg.Title, cfg.URL = cmp.Or(cfg.ID, "id"), cmp.Or(cfg.Title, "title"), cmp.Or(cfg.URL, "url")
	cfg.Content, cfg.Access = cmp.Or(cfg.Content, "content"), cmp.Or(cfg.Access, "access")
	for _, name := range []string{cfg.ID, cfg.Title, cfg.URL, cfg.Content, cfg.Access, cmp.Or(cfg.Vector, "none")} {
		if !azureField().MatchString(name) {
			errs = append(errs, fmt.Errorf("%.50q is no name of a field", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("azure search: %w", err)
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64, TLSHandshakeTimeout: sourceTime}
	}
	return &AzureSearch{cfg}, nil
}

// Search asks the service, within three seconds, for what the caller may read. It drops any result
// that the caller may not read. Errors have the status of the answer, never its text.
func (a *AzureSearch) Search(ctx context.Context, q Query) ([]Passage, error) {
	rights := slices.DeleteFunc(q.Caller.rights(a.cfg.Tenant), func(right string) bool { return !azureRight().MatchString(right) })
	text := strings.TrimSpace(spelling.Limit(q.Text, maxQuery))
	if len(rights) == 0 || text == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	fields := []string{a.cfg.ID, a.cfg.Title, a.cfg.URL, a.cfg.Content, a.cfg.Access}
	limit := min(cmp.Or(max(q.Limit, 0), 10), maxPassages)
	request := map[string]any{
		"search": plainWords(text), "queryType": "simple", "searchMode": "any", "top": limit, "count": false, "select": strings.Join(fields, ","),
		"filter": fmt.Sprintf("%s/any(a: search.in(a, '%s', '|'))", a.cfg.Access, strings.Join(rights, "|")),
	}
	if a.cfg.Semantic != "" {
		request["queryType"], request["semanticConfiguration"] = "semantic", a.cfg.Semantic
	}
	if a.cfg.Vector != "" {
		request["vectorFilterMode"] = "preFilter"
		request["vectorQueries"] = []map[string]any{{"kind": "text", "text": text, "fields": a.cfg.Vector, "k": azureNearest}}
	}
	var answer struct {
		Value []map[string]json.RawMessage `json:"value"`
	}
	if err := a.post(ctx, request, &answer); err != nil {
		return nil, fmt.Errorf("search %s in Azure AI Search: %w", a.cfg.Index, err)
	}
	var passages []Passage
	for _, d := range answer.Value[:min(len(answer.Value), limit)] {
		access := valueIn[[]string](d[a.cfg.Access]) // a document without it is read by nobody
		if !slices.ContainsFunc(access, func(right string) bool { return slices.Contains(rights, right) }) {
			continue
		}
		p := Passage{
			ID: valueIn[string](d[a.cfg.ID]), Title: spelling.Limit(oneLine(valueIn[string](d[a.cfg.Title])), maxHeading),
			URL: secureURL(valueIn[string](d[a.cfg.URL])), Text: spelling.Limit(valueIn[string](d[a.cfg.Content]), maxAzureText),
			Score: cmp.Or(valueIn[float64](d["@search.rerankerScore"]), valueIn[float64](d["@search.score"])),
		}
		p.Document = cmp.Or(p.URL, p.ID)
		if p.ID != "" && strings.TrimSpace(p.Text) != "" {
			passages = append(passages, p)
		}
	}
	return passages, nil
}

// plainWords is a text without the operators of simple queries.
func plainWords(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(`+|"()*\~`, r) || r <= ' ' })
	for i, word := range words {
		words[i] = strings.TrimLeft(word, "-")
	}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

func (a *AzureSearch) post(ctx context.Context, request, answer any) (err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	address := strings.TrimRight(a.cfg.Endpoint, "/") + "/indexes/" + url.PathEscape(a.cfg.Index) + "/docs/search?api-version=" + azureVersion
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.cfg.Token == nil {
		req.Header.Set("Api-Key", a.cfg.Key)
	} else {
		token, err := a.cfg.Token(ctx)
		if err != nil {
			return fmt.Errorf("get a token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := a.cfg.Transport.RoundTrip(req) // follows no redirect
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAzureBytes+1))
	switch {
	case err != nil:
		return cmp.Or(ctx.Err(), err)
	case res.StatusCode != http.StatusOK: // 206 has only a part
		return fmt.Errorf("the service answered %d", res.StatusCode)
	case len(raw) > maxAzureBytes:
		return errors.New("the answer is larger than 8 MB")
	case json.Unmarshal(raw, answer) != nil:
		return errors.New("the answer is not that of a search")
	}
	return nil
}

// valueIn is the zero value if raw is null, or something else.
func valueIn[T any](raw json.RawMessage) (value T) {
	_ = json.Unmarshal(raw, &value)
	return value
}
