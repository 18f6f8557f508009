/** Bodies that are not the whole answer to the call, and nothing but it: what each makes of `{"jsonrpc":"2.0","result":…,"id":…}`. */
export const REPLY_FAULTS: Readonly<Record<string, (whole: Buffer) => Buffer>> = {
  empty: () => Buffer.alloc(0),
  'cut at its end': (whole) => whole.subarray(0, -1),
  'cut before its id': (whole) => whole.subarray(0, -8),
  'cut in the middle': (whole) => whole.subarray(0, Math.floor(whole.length / 2)),
  'of another call': (whole) => Buffer.from(whole.toString().replace(/"id":.*\}$/, '"id":"other"}')),
  'without an id': (whole) => Buffer.from(whole.toString().replace(/,"id":.*\}$/, '}')),
  'twice in one body': (whole) => Buffer.concat([whole, whole]),
  'with text behind it': (whole) => Buffer.concat([whole, Buffer.from('<!-- x -->')]),
  'in a list': (whole) => Buffer.concat([Buffer.from('['), whole, Buffer.from(']')]),
  'with an error that is text': (whole) => Buffer.from(whole.toString().replace('"result"', '"error"')),
  'with an error that is a list': (whole) =>
    Buffer.from(whole.toString().replace('"result":', '"error":[').replace(/,"id"/, '],"id"')),
  'with a result and an error': (whole) =>
    Buffer.from(whole.toString().replace('"id"', '"error":{"code":1,"message":"x"},"id"')),
  'with brackets that do not match': (whole) =>
    Buffer.from(whole.toString().replace('"result":', '"result":[').replace(/,"id"/, '},"id"')),
};
