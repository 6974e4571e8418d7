//! Serves container logs, with `tailLines`, `limitBytes`, `previous` and `follow`.

use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use serde_json::Value;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::time::sleep;

use super::query::Query;
use super::status::{ApiError, Causes};
use crate::node::{log_path, previous_log_path};
use crate::objects::object::{Key, Object, list, text};
use crate::storage::publish::Reader;

/// The size of one read, in bytes.
const CHUNK: usize = 64 * 1024;

/// How often a followed log is checked for new output.
const POLL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    tail: Option<u64>,
    limit: u64,
    follow: Option<Follow>,
}

/// A followed log ends when the container has terminated, or the pod or the cluster is gone.
#[derive(Debug)]
struct Follow {
    published: Reader,
    key: Key,
    uid: String,
    container: String,
}

impl Log {
    /// `None` for a pod that is on no node yet: it has no log, which is no error.
    pub(crate) fn parse(
        pod: &Object,
        query: &Query,
        logs: Option<&Path>,
        published: Reader,
    ) -> Result<Option<Self>, ApiError> {
        let name = &pod.key().name;
        let (tail, limit) = lengths(name, query)?;
        let containers: Vec<&str> = ["initContainers", "containers"]
            .iter()
            .flat_map(|kind| list(pod.value(), &["spec", kind]))
            .map(|container| text(container, &["name"]))
            .collect();
        let container = match (query.text("container"), containers.as_slice()) {
            ("", [only]) => *only,
            ("", many) => {
                let choices = many.join(" ");
                return Err(ApiError::bad_request(format!(
                    "a container name must be specified for pod {name}, choose one of: [{choices}]"
                )));
            }
            (chosen, all) if all.contains(&chosen) => chosen,
            (other, _) => {
                return Err(ApiError::bad_request(format!(
                    "container {other} is not valid for pod {name}"
                )));
            }
        };
        if text(pod.value(), &["spec", "nodeName"]).is_empty() {
            return Ok(None);
        }
        if query.flag("previous") != Some(true)
            && let Some(why) = waits_for(pod.value(), container)
        {
            return Err(ApiError::bad_request(format!(
                "container \"{container}\" in pod \"{name}\" is waiting to start: {why}"
            )));
        }
        let logs = logs.ok_or_else(|| {
            ApiError::bad_request(format!(
                "container \"{container}\" in pod \"{name}\" runs nowhere that keeps logs"
            ))
        })?;
        let follow = (query.flag("follow") == Some(true)).then(|| Follow {
            published,
            key: pod.key().clone(),
            uid: pod.uid().to_owned(),
            container: container.to_owned(),
        });
        let mut path = log_path(logs, pod, container);
        if query.flag("previous") == Some(true) {
            path = previous_log_path(&path);
            if !path.exists() {
                return Err(ApiError::bad_request(format!(
                    "previous terminated container \"{container}\" in pod \"{name}\" not found"
                )));
            }
        }
        Ok(Some(Self {
            path,
            tail,
            limit,
            follow,
        }))
    }

    pub(crate) async fn open(self) -> Result<impl Stream<Item = std::io::Result<Bytes>>, ApiError> {
        let mut file = File::open(&self.path).await.map_err(|e| {
            ApiError::bad_request(format!("the container has written nothing yet: {e}"))
        })?;
        if let Some(lines) = self.tail {
            seek_lines(&mut file, lines)
                .await
                .map_err(|e| ApiError::bad_request(format!("the log cannot be read: {e}")))?;
        }
        let (limit, follow) = (self.limit, self.follow);
        Ok(stream::try_unfold(
            (file, limit, follow),
            |(mut file, left, follow)| async move {
                if left == 0 {
                    return Ok(None);
                }
                let mut chunk = vec![0; CHUNK];
                loop {
                    // Checked before the read: what the container wrote before it terminated is then in the file.
                    let over = follow.as_ref().is_none_or(Follow::is_over);
                    let read = file.read(&mut chunk).await?;
                    let take = read.min(usize::try_from(left).unwrap_or(usize::MAX));
                    if take > 0 {
                        chunk.truncate(take);
                        return Ok(Some((
                            Bytes::from(chunk),
                            (file, left - take as u64, follow),
                        )));
                    }
                    if over {
                        return Ok(None);
                    }
                    sleep(POLL).await;
                }
            },
        ))
    }
}

/// How many lines, and how many bytes of them.
fn lengths(pod: &str, query: &Query) -> Result<(Option<u64>, u64), ApiError> {
    let time = query.text("sinceTime");
    if !time.is_empty() && time.parse::<jiff::Timestamp>().is_err() {
        let why =
            format!("parsing time {time:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse it");
        return Err(ApiError::bad_request(why));
    }
    let mut causes = Causes::default();
    let mut at_least = |field: &str, least: i64| -> Result<Option<u64>, ApiError> {
        let given = query.number(field)?;
        if let Some(given) = given.filter(|given| *given < least) {
            let detail = match least {
                0 => "must be greater than or equal to 0",
                _ => "must be greater than 0",
            };
            causes.invalid(field, given, detail);
        }
        Ok(given.and_then(|given| u64::try_from(given).ok()))
    };
    let tail = at_least("tailLines", 0)?;
    at_least("sinceSeconds", 1)?;
    let limit = at_least("limitBytes", 1)?;
    if !query.text("stream").is_empty() {
        causes.forbidden("stream", "may not be specified");
    }
    causes.check("PodLogOptions", "", pod)?;
    Ok((tail, limit.unwrap_or(u64::MAX)))
}

/// What a container that has never run waits for, in the kubelet's words.
fn waits_for<'a>(pod: &'a Value, container: &str) -> Option<&'a str> {
    let status = ["containerStatuses", "initContainerStatuses"]
        .iter()
        .flat_map(|kind| list(pod, &["status", kind]))
        .find(|status| text(status, &["name"]) == container)?;
    if status["lastState"].get("terminated").is_some() {
        return None;
    }
    let waiting = status["state"].get("waiting")?;
    Some(match text(waiting, &["reason"]) {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        reason => reason,
    })
}

impl Follow {
    fn is_over(&self) -> bool {
        let now = self.published.borrow();
        let Some(pod) = now.state.get(&self.key).filter(|pod| pod.uid() == self.uid) else {
            return true;
        };
        let ended = ["containerStatuses", "initContainerStatuses"]
            .iter()
            .flat_map(|kind| list(pod.value(), &["status", kind]))
            .any(|status| {
                text(status, &["name"]) == self.container
                    && status["state"].get("terminated").is_some()
            });
        ended || now.stopping
    }
}

/// Seeks to the start of the last `lines` lines, reading backwards from the end.
async fn seek_lines(file: &mut File, lines: u64) -> std::io::Result<()> {
    let mut at = file.seek(SeekFrom::End(0)).await?;
    let mut wanted = lines;
    let mut is_last_byte = true;
    while at > 0 {
        let length = at.min(CHUNK as u64);
        file.seek(SeekFrom::Start(at - length)).await?;
        let mut chunk = vec![0; usize::try_from(length).unwrap_or(CHUNK)];
        file.read_exact(&mut chunk).await?;
        for byte in chunk.iter().rev() {
            let ends_line = *byte == b'\n';
            // The newline at the end of the file does not start another line.
            if ends_line && !is_last_byte {
                wanted = wanted.saturating_sub(1);
            }
            if (wanted == 0) && (ends_line || lines == 0) {
                file.seek(SeekFrom::Start(at)).await?;
                return Ok(());
            }
            is_last_byte = false;
            at -= 1;
        }
    }
    file.seek(SeekFrom::Start(0)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Write as _;

    #[test]
    fn a_container_that_waits_to_start_has_no_log_unless_it_has_run() {
        let pod = |state: Value, last: Value| {
            let status = json!({"name": "c", "state": state, "lastState": last});
            json!({"status": {"containerStatuses": [status]}})
        };
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        for (reason, said) in [
            ("ContainerCreating", "ContainerCreating"),
            ("ErrImagePull", "image can't be pulled"),
            ("ImagePullBackOff", "trying and failing to pull image"),
        ] {
            let pod = pod(waiting(reason), json!({}));
            assert_eq!(waits_for(&pod, "c"), Some(said));
            assert_eq!(waits_for(&pod, "other"), None);
        }
        let again = pod(
            waiting("CrashLoopBackOff"),
            json!({"terminated": {"exitCode": 1}}),
        );
        assert_eq!(waits_for(&again, "c"), None);
        assert_eq!(
            waits_for(&pod(json!({"running": {}}), json!({})), "c"),
            None
        );
        assert_eq!(waits_for(&json!({}), "c"), None);
    }

    #[tokio::test]
    async fn the_tail_starts_at_the_requested_line() {
        for (content, lines, want) in [
            ("a\nb\nc\n", 1, "c\n"),
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\nb\n", 0, ""),
            ("\n\n\n", 2, "\n\n"),
            ("", 3, ""),
        ] {
            let mut named = tempfile::NamedTempFile::new().expect("a file");
            named.write_all(content.as_bytes()).expect("written");
            let mut file = File::open(named.path()).await.expect("opened");
            seek_lines(&mut file, lines).await.expect("sought");
            let mut rest = String::new();
            file.read_to_string(&mut rest).await.expect("read");
            assert_eq!(rest, want, "{content:?} {lines}");
        }
    }
}
