export { type AdminFront, type AdminFrontOptions, createAdminFront } from './admin.ts';
export { createHttpFront, type HttpAddresses, type HttpFront, type HttpFrontOptions } from './front.ts';
export { openApiDocument } from './reference/index.ts';
