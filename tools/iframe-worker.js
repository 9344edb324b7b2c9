// Search for pages that are opened as files: browsers start no workers there, so the worker runs in
// a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      frame.contentDocument.open(); // gives the frame the page's address, and its right to load files
      frame.contentDocument.write("<body></body>");
      frame.contentDocument.close();
      const home = new URL(url, document.baseURI);
      const script = (source) => new Promise((loaded, failed) => {
        const element = frame.contentDocument.createElement("script");
        Object.assign(element, { src: new URL(source, home), onload: loaded, onerror: () => failed(Error(source)) });
        frame.contentDocument.body.append(element);
      });
      window.addEventListener("message", (event) => {
        if (event.source !== this.inside) return;
        const copy = new MessageEvent("message", { data: event.data });
        this.onmessage?.(copy);
        this.dispatchEvent(copy);
      });
      this.inside.importScripts = (...sources) => Promise.all(sources.map(script));
      this.send = this.inside.postMessage.bind(this.inside);
      this.inside.eval("window.postMessage = (data) => window.parent.postMessage(data, '*')");
      this.started = script(home);
    }

    postMessage(data) {
      this.started.then(() => this.send(data, "*"));
    }
  };
}
