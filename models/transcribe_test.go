package models_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/models"
)

func ExampleNewTranscriber() {
	server := httptest.NewServer(answer(200, `{"text":" Water the plants. "}`))
	defer server.Close()
	listen, err := models.NewTranscriber(models.OpenAIConfig{BaseURL: server.URL + "/v1", Model: "whisper-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(listen.Transcribe(context.Background(), "voice.mp3", []byte("ID3")))
	// Output: Water the plants. <nil>
}

// TestTranscriptionAtTheWire: the recording goes out as a form, and a refusal says what kind it is.
func TestTranscriptionAtTheWire(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, head, err := r.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		sound, _ := io.ReadAll(file)
		if string(sound) == "noise" {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"message":"slow down, key-1"}}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"text": fmt.Sprint(r.URL.Path, " ", r.FormValue("model"), " ", head.Filename, " ", string(sound), " ", r.Header.Get("Authorization"))})
	}))
	t.Cleanup(server.Close)
	listen, err := models.NewTranscriber(models.OpenAIConfig{BaseURL: server.URL + "/v1", Key: "key-1", Model: "whisper-1"})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := listen.Transcribe(t.Context(), "voice.ogg", []byte("OggS")); err != nil || text != "/v1/audio/transcriptions whisper-1 voice.ogg OggS Bearer key-1" {
		t.Errorf("%q, %v", text, err)
	}
	_, err = listen.Transcribe(t.Context(), "voice.ogg", []byte("noise"))
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Throttled || strings.Contains(fault.Said, "key-1") {
		t.Errorf("%v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err = listen.Transcribe(ended, "voice.ogg", []byte("OggS")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := models.NewTranscriber(models.OpenAIConfig{Key: "k"}); err == nil {
		t.Error("no model is taken")
	}
}

// TestPicturesAtTheWire: a message with pictures has parts, and no log has a picture in it.
func TestPicturesAtTheWire(t *testing.T) {
	t.Parallel()
	req := &models.Request{Messages: []models.Message{
		{Role: "system", Text: "Answer."},
		{Role: "user", Text: "look", Pictures: []models.Picture{{Type: "image/png", Data: []byte("PNG"), About: "image: 1×2 png"}}},
		{Role: "user", Pictures: []models.Picture{{Type: "image/jpeg", Data: []byte("JPG")}}},
	}}
	raw, _ := json.Marshal(bodyOf(t, req, nil)["messages"])
	const want = `[{"content":"Answer.","role":"system"},` +
		`{"content":[{"text":"look","type":"text"},{"image_url":{"url":"data:image/png;base64,UE5H"},"type":"image_url"}],"role":"user"},` +
		`{"content":[{"image_url":{"url":"data:image/jpeg;base64,SlBH"},"type":"image_url"}],"role":"user"}]`
	if string(raw) != want {
		t.Errorf("sent %s\nwant %s", raw, want)
	}
	written, err := json.Marshal(req)
	if err != nil || strings.Contains(string(written), "UE5H") || !strings.Contains(string(written), "image: 1×2 png") {
		t.Errorf("%s, %v", written, err)
	}
}
