package models

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"
)

// Transcriber writes down what is said in recordings. It is safe for concurrent use.
type Transcriber struct{ on *openAI }

// NewTranscriber returns a Transcriber that uses the transcription API of the server in cfg, or on Azure
// the deployment. cfg.Model is required, on Azure AzureDeployment. It checks cfg as [NewOpenAI] does and
// does not touch the network.
func NewTranscriber(cfg OpenAIConfig) (*Transcriber, error) {
	if cfg.AzureEndpoint == "" && cfg.Model == "" {
		return nil, errors.New("openai config: no Model to transcribe with")
	}
	model, err := NewOpenAI(cfg)
	if err != nil {
		return nil, err
	}
	return &Transcriber{model.(*openAI)}, nil
}

// Transcribe returns what is said in a recording, "" if nothing is. name says the format with its ending,
// such as voice.mp3. The error is an [*Error], or one for which errors.Is(err, context.Canceled) holds.
func (t *Transcriber) Transcribe(ctx context.Context, name string, sound []byte) (string, error) {
	call, cancel := context.WithTimeout(ctx, t.on.cfg.Timeout)
	defer cancel()
	began := time.Now()
	answer, err := t.on.client.CreateTranscription(call, openai.AudioRequest{Model: t.on.cfg.Model, FilePath: name, Reader: bytes.NewReader(sound)})
	if err != nil {
		err = t.on.failed(ctx, "transcribe", err)
	}
	t.on.ended(ctx, err, time.Since(began)).Int("bytes", len(sound)).Msg("transcription")
	return strings.TrimSpace(answer.Text), err
}
