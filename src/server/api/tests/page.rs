//! What the page is made from (spec O-44, O-82).

use super::*;

// spec: O-44, O-50
#[actix::test]
async fn the_page_needs_no_token_and_without_one_nothing_of_the_application_is_told() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    for path in ["/", "/page.css", "/page.js"] {
        let (status, _) = driver.send(Method::GET, path, "", "").await;
        assert_eq!(status.as_u16(), 200, "{path}");
        let (status, answer) = driver.send(Method::POST, path, "full-one", "").await;
        assert_eq!(status.as_u16(), 405, "{path}: {answer}");
    }
    for route in super::table::table().iter().filter(|route| !route.open) {
        let path = route
            .path
            .replace("{id}", "1")
            .replace("{profile}", "default");
        let (status, answer) = driver.send(route.method.clone(), &path, "", "{}").await;
        assert_eq!(status.as_u16(), 401, "{path}: {answer}");
    }
}

// spec: O-82
#[actix::test]
async fn a_token_is_told_what_it_may_do() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    for (token, right) in [("looks", "read"), ("full-one", "full")] {
        let (_, answer) = driver.send(Method::GET, "/v1/token", token, "").await;
        assert_eq!(answer, json!({"right": right}));
    }
}

// spec: O-82
#[actix::test]
async fn the_numbers_of_the_last_hour_are_those_of_the_status() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    driver.request(1);
    tokio::time::sleep(Duration::from_secs(25)).await;
    let history = driver.get("/v1/history/counts").await;
    let status = driver.get("/v1/status").await;
    let times = history["times"].as_array().unwrap().len();
    assert!((2..=3).contains(&times), "{history}");
    let columns = history["profiles"]["default"].as_object().unwrap();
    for (name, column) in columns {
        assert_eq!(column.as_array().unwrap().len(), times, "{name}");
        assert_eq!(
            column[times - 1],
            status["profiles"]["default"][name],
            "{name}"
        );
    }
    assert_eq!(
        (columns.len(), &columns["requested"][times - 1]),
        (8, &json!(1))
    );
}
