package models

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"
)

// Defaults of [OpenAIConfig].
const (
	DefaultBaseURL          = "https://api.openai.com/v1"
	DefaultModel            = openai.GPT4oMini // no reasoning, follows a strict schema, cheap
	DefaultAzureAPIVersion  = "2024-10-21"     // generally available; the first with strict schemas
	DefaultTimeout          = 120 * time.Second
	DefaultMaxResponseBytes = 8 << 20
)

// OpenAIConfig says which server is asked for what. The zero value of every field
// is a working default, but OpenAI itself needs a Key.
type OpenAIConfig struct {
	Key     string // sent as a bearer token; "" for local servers
	BaseURL string // up to and without /chat/completions; "": DefaultBaseURL
	Model   string // "": DefaultModel; on Azure the model behind the deployment, "": the deployment's name
	Azure   Azure  // wins over Key and BaseURL when its Endpoint is set

	Transport http.RoundTripper // carries the calls; nil: an own pool of connections

	Timeout          time.Duration // of one call, within the caller's ctx; 0: DefaultTimeout
	MaxResponseBytes int64         // of one answer; 0: DefaultMaxResponseBytes

	// Stream asks for the answer piece by piece. Callers still get it whole, but
	// nothing between here and the server takes a long answer for a dead
	// connection. A server that does not stream is asked for the whole. Some report
	// no usage in streams, which then counts as none.
	Stream bool
}

// Azure is a deployment of Azure OpenAI. All fields but APIVersion are required.
// Endpoint is the resource's address (https://NAME.openai.azure.com), or a
// gateway's with a path; plain http is refused except on loopback. The version-less
// API (…/openai/v1) is not this: give it as BaseURL, with Key.
type Azure struct {
	Endpoint   string
	Key        string // sent in the api-key header
	Deployment string
	APIVersion string // "": DefaultAzureAPIVersion
}

func (c *OpenAIConfig) isAzure() bool { return c.Azure.Endpoint != "" }

func (c *OpenAIConfig) key() string {
	if c.isAzure() {
		return c.Azure.Key
	}
	return c.Key
}

func (c *OpenAIConfig) name() string {
	if c.isAzure() {
		return c.Azure.Deployment
	}
	return cmp.Or(c.Model, DefaultModel)
}

// vendor checks c and writes it in the vendor's words.
func (c *OpenAIConfig) vendor() (openai.ClientConfig, error) {
	if c.isAzure() {
		return c.vendorAzure()
	}
	base := strings.TrimRight(cmp.Or(c.BaseURL, DefaultBaseURL), "/")
	base = strings.TrimSuffix(base, "/chat/completions")
	errs := c.limitFaults()
	if _, err := parseBase(base); err != nil {
		errs = append(errs, fmt.Errorf("BaseURL: %w", err))
	}
	if base == DefaultBaseURL && c.Key == "" {
		errs = append(errs, errors.New("no Key for OpenAI"))
	}
	if err := checkKey(c.Key); err != nil {
		errs = append(errs, fmt.Errorf("Key: %w", err))
	}
	out := openai.DefaultConfig(c.Key)
	out.BaseURL = base
	return out, errors.Join(errs...)
}

func (c *OpenAIConfig) vendorAzure() (openai.ClientConfig, error) {
	a := c.Azure
	base := strings.TrimSuffix(strings.TrimRight(a.Endpoint, "/"), "/openai") // the client adds it
	errs := c.limitFaults()
	u, err := parseBase(base)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("Azure.Endpoint: %w", err))
	case strings.HasSuffix(u.Path, "/openai/v1"):
		errs = append(errs, errors.New("Azure.Endpoint: the version-less API (/openai/v1) goes in BaseURL"))
	case u.Scheme != "https" && !isLoopback(u.Hostname()):
		errs = append(errs, fmt.Errorf("Azure.Endpoint: %s is not https", u.Host))
	}
	if a.Key == "" {
		errs = append(errs, errors.New("no Azure.Key"))
	} else if err := checkKey(a.Key); err != nil {
		errs = append(errs, fmt.Errorf("Azure.Key: %w", err))
	}
	if !isName(a.Deployment, 128) {
		errs = append(errs, fmt.Errorf("Azure.Deployment: %q is not a deployment's name", a.Deployment))
	}
	out := openai.DefaultAzureConfig(a.Key, base)
	out.APIVersion = cmp.Or(a.APIVersion, DefaultAzureAPIVersion)
	out.AzureModelMapperFunc = func(string) string { return a.Deployment }
	return out, errors.Join(errs...)
}

func (c *OpenAIConfig) limitFaults() []error {
	var errs []error
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("Timeout: %s is below zero", c.Timeout))
	}
	if c.MaxResponseBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxResponseBytes: %d is below zero", c.MaxResponseBytes))
	}
	return errs
}

// parseBase takes an absolute http or https address to which a path can be added.
// Its errors never repeat the address: it may hold a password.
func parseBase(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New("not an absolute http or https URL")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must not hold a query or fragment")
	}
	return u, nil
}

// checkKey refuses what cannot stand in a header. A pasted line end is the usual case.
func checkKey(key string) error {
	for _, r := range key {
		if r <= ' ' || r > '~' {
			return errors.New("holds a space, line end or other character that no key has")
		}
	}
	return nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// isName reports whether s is one word of letters, digits, dots, dashes and
// underscores that begins with a letter or digit.
func isName(s string, maxBytes int) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '-' && c != '_') {
			return false
		}
	}
	return s != "" && len(s) <= maxBytes
}
