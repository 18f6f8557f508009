import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** `plugins/` beside `src/`, in the source tree and in the built one. */
export const builtInDir = fileURLToPath(new URL('../../plugins', import.meta.url));

/** Where packages of plugins are looked for: from the configuration file (null without one), and from the program. */
export const packageDirs = (configFile: string | null): readonly string[] =>
  configFile === null ? [builtInDir] : [dirname(configFile), builtInDir];
