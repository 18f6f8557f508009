/** The part of WebAssembly used here: its types are part of the browser types, which a daemon does not include. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
    /** Nominal type: modules can be posted to other threads. */
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
