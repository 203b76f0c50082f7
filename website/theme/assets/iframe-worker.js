// The site's search runs in a Worker, which browsers refuse to pages that were opened from the disk.
// There, this class does the same in a hidden frame of the page.
if (location.protocol === "file:") {
  const load = (page, url) =>
    new Promise((loaded, failed) => {
      const script = page.createElement("script");
      script.src = url;
      script.onload = loaded;
      script.onerror = failed;
      page.body.append(script);
    });

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inside = this.frame.contentWindow;
      const page = this.inside.document;
      page.open();
      page.write("<!doctype html><body></body>");
      page.close();
      // What the script of a worker expects: it answers by postMessage, and loads further scripts.
      this.inside.postMessage = (data) => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      this.inside.importScripts = async (...urls) => {
        for (const each of urls) await load(page, each);
      };
      this.ready = load(page, url);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
