export { documentRoutes } from './docs.ts';
export { openApiDocument } from './openapi.ts';
