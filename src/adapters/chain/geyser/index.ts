export { createYellowstoneStream } from './block-stream.ts';
