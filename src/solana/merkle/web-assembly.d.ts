/** The part of WebAssembly that is used here: its types come with those of browsers, which a daemon has no use for. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
    /** Only by name: modules can be posted to other threads. */
    private readonly brand: 'Module';
  }
  class Instance {
    constructor(module: Module);
    readonly exports: Readonly<Record<string, unknown>>;
  }
  interface Memory {
    readonly buffer: ArrayBuffer;
  }
  function validate(bytes: Uint8Array): boolean;
}
