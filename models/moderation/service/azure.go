package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/models/moderation"
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
func NewAzure(cfg AzureConfig) (moderation.Moderator, error) {
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

func (a *azure) Judge(ctx context.Context, pieces []moderation.Piece) (moderation.Verdict, error) {
	var asks []ask
	texts, err := batches(pieces, maxWindow, moderation.Said, moderation.PlannedSay, moderation.PlannedEntity)
	for _, some := range texts { // they are asked about together
		asks = append(asks, func(ctx context.Context) (moderation.Verdict, error) { return a.analyze(ctx, some) })
	}
	for _, i := range pictures(pieces) {
		asks = append(asks, func(ctx context.Context) (moderation.Verdict, error) { return a.look(ctx, pieces[i].Picture, i) })
	}
	if a.shields {
		prompts, tooLong := batches(pieces, 1, moderation.Said)
		for _, prompt := range prompts {
			asks = append(asks, func(ctx context.Context) (moderation.Verdict, error) { return a.shieldPrompt(ctx, prompt) })
		}
		documents, tooLongToo := batches(pieces, maxDocuments, moderation.Document)
		for _, some := range documents {
			asks = append(asks, func(ctx context.Context) (moderation.Verdict, error) { return a.shieldDocuments(ctx, some) })
		}
		err = errors.Join(err, tooLong, tooLongToo)
	}
	if err != nil {
		return moderation.Verdict{}, a.unjudged(err)
	}
	return a.judge(ctx, asks)
}

// analyze asks how severe texts are together.
func (a *azure) analyze(ctx context.Context, some batch) (moderation.Verdict, error) {
	request := map[string]any{"text": strings.Join(some.texts, separator), "outputType": "EightSeverityLevels"}
	if len(a.blocklists) > 0 {
		request["blocklistNames"] = a.blocklists
	}
	found, err := a.severe(ctx, azureAnalyze, request)
	return verdictOn(found, some.pieces...), err
}

// look asks how severe a picture is. There are four severities: 0, 2, 4 and 6.
func (a *azure) look(ctx context.Context, picture []byte, piece int) (moderation.Verdict, error) {
	found, err := a.severe(ctx, azureImage, map[string]any{"image": map[string]any{"content": picture}, "outputType": "FourSeverityLevels"})
	return verdictOn(found, piece), err
}

// verdictOn is what was found in some pieces, or in one of them.
func verdictOn(found []string, pieces ...int) moderation.Verdict {
	if len(found) == 0 {
		return moderation.Verdict{}
	}
	return moderation.Verdict{Categories: found, Pieces: pieces}
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

// attack is what Azure says about a text that may try to command the model.
type attack struct {
	Detected *bool `json:"attackDetected"`
}

func (a attack) found(category string, piece int) (moderation.Verdict, error) {
	if a.Detected == nil {
		return moderation.Verdict{}, errors.New("the answer does not say whether there is an attack")
	}
	if !*a.Detected {
		return moderation.Verdict{}, nil
	}
	return verdictOn([]string{category}, piece), nil
}

// shieldPrompt asks whether what a person said tries to command the model.
func (a *azure) shieldPrompt(ctx context.Context, prompt batch) (moderation.Verdict, error) {
	var answer struct {
		Prompt    *attack  `json:"userPromptAnalysis"`
		Documents []attack `json:"documentsAnalysis"`
	}
	if err := a.post(ctx, azureShield, map[string]any{"userPrompt": prompt.texts[0], "documents": []string{}}, &answer); err != nil {
		return moderation.Verdict{}, err
	}
	switch {
	case len(answer.Documents) != 0:
		return moderation.Verdict{}, fmt.Errorf("the answer is about %d documents, not 0", len(answer.Documents))
	case answer.Prompt == nil:
		return moderation.Verdict{}, errors.New("the answer is not about the prompt")
	}
	return answer.Prompt.found(promptAttack, prompt.pieces[0])
}

// shieldDocuments asks whether documents try to command the model.
func (a *azure) shieldDocuments(ctx context.Context, some batch) (v moderation.Verdict, err error) {
	var answer struct {
		Documents []attack `json:"documentsAnalysis"`
	}
	if err := a.post(ctx, azureShield, map[string]any{"userPrompt": "", "documents": some.texts}, &answer); err != nil {
		return moderation.Verdict{}, err
	}
	if len(answer.Documents) != len(some.texts) {
		return moderation.Verdict{}, fmt.Errorf("the answer is about %d documents, not %d", len(answer.Documents), len(some.texts))
	}
	for i, document := range answer.Documents {
		one, err := document.found(documentAttack, some.pieces[i])
		if err != nil {
			return moderation.Verdict{}, err
		}
		v.Categories, v.Pieces = append(v.Categories, one.Categories...), append(v.Pieces, one.Pieces...)
	}
	return v, nil
}
