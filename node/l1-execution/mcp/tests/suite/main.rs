//! MCP servers as tools.

mod pinning;
mod proxy;
