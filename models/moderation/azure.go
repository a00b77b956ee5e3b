package moderation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	azureVersion = "?api-version=2024-09-01"
	azureAnalyze = "/contentsafety/text:analyze" + azureVersion
	azureImage   = "/contentsafety/image:analyze" + azureVersion
	azureShield  = "/contentsafety/text:shieldPrompt" + azureVersion
	maxSeverity  = 7
	maxDocuments = 5 // of one request
)

// The categories of what Azure finds besides those of its severities.
const (
	blocklist      = "blocklist"
	promptAttack   = "prompt-attack"
	documentAttack = "document-attack"
)

// AzureConfig says how to ask Azure AI Content Safety. URL, Key and Threshold are required; the zero
// value of every other field is a working default.
type AzureConfig struct {
	URL string // https://NAME.cognitiveservices.azure.com
	Key string
	// Threshold is the severity, from 1 to 7, from which a text is flagged: 2 is low, 4 medium and 6
	// high. There is no default, and 0 would flag every text.
	Threshold int
	// Blocklists are names of lists in Azure. What is on one is flagged. nil: none.
	Blocklists []string
	// Shields looks for attempts to command the model, in what people say and in documents. false:
	// documents are not judged.
	Shields   bool
	Timeout   time.Duration     // of one of two tries; 0: 3 seconds
	Transport http.RoundTripper // carries the requests; nil: its own connection pool
}

type azure struct {
	service
	threshold  int
	blocklists []string
	shields    bool
}

var isBlocklist = regexp.MustCompile(`^[0-9A-Za-z._~-]{1,64}$`)

// NewAzure returns a moderator that asks Azure AI Content Safety. A text is flagged if a severity is
// the threshold or above. The error lists every mistake in cfg. Nothing is asked before Judge.
func NewAzure(cfg AzureConfig) (Moderator, error) {
	var faults []error
	s := service{name: "Azure", base: cfg.URL, header: "Ocp-Apim-Subscription-Key", key: cfg.Key, timeout: cfg.Timeout}
	s = newService(s, cfg.Transport, &faults)
	if cfg.Threshold < 1 || cfg.Threshold > maxSeverity {
		faults = append(faults, fmt.Errorf("Threshold: %d is not a severity from 1 to %d", cfg.Threshold, maxSeverity))
	}
	for _, name := range cfg.Blocklists {
		if !isBlocklist.MatchString(name) {
			faults = append(faults, fmt.Errorf("Blocklists: %.80q is not the name of a list", name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("azure moderation config: %w", err)
	}
	return &azure{service: s, threshold: cfg.Threshold, blocklists: slices.Clone(cfg.Blocklists), shields: cfg.Shields}, nil
}

// Judge is documented at [Moderator].
func (a *azure) Judge(ctx context.Context, pieces []Piece) (Verdict, error) {
	var asks []ask
	texts, err := batches(pieces, maxWindow, Said, PlannedSay, PlannedEntity)
	for _, batch := range texts {
		asks = append(asks, func(ctx context.Context) ([]string, error) { return a.analyze(ctx, strings.Join(batch, separator)) })
	}
	for _, picture := range pictures(pieces) {
		asks = append(asks, func(ctx context.Context) ([]string, error) { return a.look(ctx, picture) })
	}
	if a.shields {
		prompts, tooLong := batches(pieces, 1, Said)
		for _, prompt := range prompts {
			asks = append(asks, func(ctx context.Context) ([]string, error) { return a.shield(ctx, prompt[0], []string{}) })
		}
		documents, tooLongToo := batches(pieces, maxDocuments, Document)
		for _, some := range documents {
			asks = append(asks, func(ctx context.Context) ([]string, error) { return a.shield(ctx, "", some) })
		}
		err = errors.Join(err, tooLong, tooLongToo)
	}
	if err != nil {
		return Verdict{}, a.unjudged(err)
	}
	return a.judge(ctx, asks)
}

// analyze asks how severe a text is.
func (a *azure) analyze(ctx context.Context, text string) (found []string, err error) {
	request := map[string]any{"text": text, "outputType": "EightSeverityLevels"}
	if len(a.blocklists) > 0 {
		request["blocklistNames"] = a.blocklists
	}
	return a.severe(ctx, azureAnalyze, request)
}

// look asks how severe a picture is. There are four severities: 0, 2, 4 and 6.
func (a *azure) look(ctx context.Context, picture []byte) (found []string, err error) {
	return a.severe(ctx, azureImage, map[string]any{"image": map[string]any{"content": picture}, "outputType": "FourSeverityLevels"})
}

// severe returns the categories whose severity counts.
func (a *azure) severe(ctx context.Context, path string, request map[string]any) (found []string, err error) {
	var answer struct {
		Matches    []struct{} `json:"blocklistsMatch"`
		Categories []struct {
			Category string `json:"category"`
			Severity *int   `json:"severity"`
		} `json:"categoriesAnalysis"`
	}
	if err := a.post(ctx, path, request, &answer); err != nil {
		return nil, err
	}
	if len(answer.Categories) == 0 {
		return nil, errors.New("the answer has no categories")
	}
	for _, c := range answer.Categories {
		switch {
		case c.Severity == nil || *c.Severity < 0 || *c.Severity > maxSeverity:
			return nil, fmt.Errorf("the answer has a severity that is not from 0 to %d", maxSeverity)
		case *c.Severity >= a.threshold:
			found = append(found, category(c.Category))
		}
	}
	if len(answer.Matches) > 0 {
		found = append(found, blocklist)
	}
	return found, nil
}

// shield asks whether a prompt or documents try to command the model.
func (a *azure) shield(ctx context.Context, prompt string, documents []string) (found []string, err error) {
	type analysis struct {
		Attack *bool `json:"attackDetected"`
	}
	var answer struct {
		Prompt    *analysis  `json:"userPromptAnalysis"`
		Documents []analysis `json:"documentsAnalysis"`
	}
	if err := a.post(ctx, azureShield, map[string]any{"userPrompt": prompt, "documents": documents}, &answer); err != nil {
		return nil, err
	}
	if len(answer.Documents) != len(documents) {
		return nil, fmt.Errorf("the answer is about %d documents, not %d", len(answer.Documents), len(documents))
	}
	all := map[string][]analysis{documentAttack: answer.Documents}
	if prompt != "" {
		if answer.Prompt == nil {
			return nil, errors.New("the answer is not about the prompt")
		}
		all[promptAttack] = []analysis{*answer.Prompt}
	}
	for name, list := range all {
		for _, one := range list {
			switch {
			case one.Attack == nil:
				return nil, errors.New("the answer does not say whether there is an attack")
			case *one.Attack:
				found = append(found, name)
			}
		}
	}
	return found, nil
}
