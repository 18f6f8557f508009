/** Where the parts of a wire transaction lie. All offsets count from the start of the buffer that was walked. */
export interface WireLayout {
  signaturesAt: number;
  signatureCount: number;
  /** -1 for legacy. */
  version: number;
  /** Three counts: required signatures, readonly signed, readonly unsigned. */
  headerAt: number;
  keysAt: number;
  keyCount: number;
  blockhashAt: number;
  /** Version 1: which config values there are, and where the first one is. */
  configMask: number;
  configAt: number;
  /** At the first instruction, behind the count; in version 1 at the first of the instruction headers. */
  instructionsAt: number;
  instructionCount: number;
  /** At the first address table lookup, behind the count. */
  lookupsAt: number;
  lookupCount: number;
  loadedWritable: number;
  loadedReadonly: number;
}

export function emptyLayout(): WireLayout {
  return {
    signaturesAt: 0,
    signatureCount: 0,
    version: -1,
    headerAt: 0,
    keysAt: 0,
    keyCount: 0,
    blockhashAt: 0,
    configMask: 0,
    configAt: 0,
    instructionsAt: 0,
    instructionCount: 0,
    lookupsAt: 0,
    lookupCount: 0,
    loadedWritable: 0,
    loadedReadonly: 0,
  };
}
