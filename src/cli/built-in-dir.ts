import { fileURLToPath } from 'node:url';

/** `plugins/` beside `src/`, in the source tree and in the built one. */
export const builtInDir = fileURLToPath(new URL('../../plugins', import.meta.url));
