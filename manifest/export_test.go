package manifest

// JSON is the manifest.json that Build packs.
var JSON = document
